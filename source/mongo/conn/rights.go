package conn

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Rights are what the connection's user may do.
type Rights struct {
	all        bool // the server asks for no user
	User       string
	privileges []privilege
}

type privilege struct {
	Resource struct {
		DB         *string `bson:"db"`
		Collection *string `bson:"collection"`
		Any        bool    `bson:"anyResource"`
	} `bson:"resource"`
	Actions []string `bson:"actions"`
}

// An authenticated user is one of a connection.
type authenticated struct {
	User string `bson:"user"`
	DB   string `bson:"db"`
}

// ReadRights asks the server.
func ReadRights(ctx context.Context, client *mongo.Client) (*Rights, error) {
	var status struct {
		Auth struct {
			Users      []authenticated `bson:"authenticatedUsers"`
			Privileges []privilege     `bson:"authenticatedUserPrivileges"`
		} `bson:"authInfo"`
	}
	err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "connectionStatus", Value: 1}, {Key: "showPrivileges", Value: true}}).Decode(&status)
	if err != nil {
		return nil, err
	}
	r := &Rights{all: len(status.Auth.Users) == 0, privileges: status.Auth.Privileges}
	for _, u := range status.Auth.Users {
		r.User = u.User + "@" + u.DB
	}
	return r, nil
}

// Allow reports whether an action is allowed on a collection; "" stands for all of a database, or all databases.
func (r *Rights) Allow(database, collection, action string) bool {
	if r.all {
		return true
	}
	return slices.ContainsFunc(r.privileges, func(p privilege) bool {
		res := &p.Resource
		fits := res.Any || res.DB != nil && res.Collection != nil && (*res.DB == "" || *res.DB == database) && (*res.Collection == "" || *res.Collection == collection)
		return fits && slices.Contains(p.Actions, action)
	})
}
