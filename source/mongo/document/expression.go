package document

import "go.mongodb.org/mongo-driver/v2/bson"

// Literal keeps a value from being read as an expression.
func Literal(v any) bson.D { return bson.D{{Key: "$literal", Value: v}} }
