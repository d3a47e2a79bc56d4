package conn

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"
)

// ValidURL tells what is wrong with a connection string, without showing it: it may hold a password. Schema as in Config.
func ValidURL(url, schema string) error {
	if !strings.HasPrefix(url, "mongodb://") && !strings.HasPrefix(url, "mongodb+srv://") {
		return errors.New("is no connection string of MongoDB: it begins with mongodb:// or mongodb+srv://")
	}
	if strings.HasPrefix(url, "mongodb+srv://") {
		return nil // what is in it is only known once names are looked up
	}
	uri, err := connstring.Parse(url)
	switch {
	case err != nil:
		return unreadable(err)
	case uri.Database == "" && schema == "":
		return errors.New("names no database: write mongodb://host/database, or set source.schema")
	}
	return nil
}

// unreadable says what is wrong with a connection string that the driver cannot read, without the driver's words, which may show a password.
func unreadable(err error) error {
	if lookup, ok := errors.AsType[*net.DNSError](err); ok { // of mongodb+srv
		return fmt.Errorf("look up the servers: %w", lookup)
	}
	return errors.New("is no connection string of MongoDB: want mongodb://user:password@host:27017/database?replicaSet=rs0, with what is special in user and password written as %XX")
}
