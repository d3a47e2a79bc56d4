package document

import (
	"encoding/hex"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// An IDKind is the type of a document's id. It is the Txn of messages that come from the log: the store needs it to find the
// document by its id, which a message has as text. When the document was inserted says the position.
type IDKind uint64

// Kinds of ids. 0 means that the type is not known.
const (
	idString IDKind = iota + 1
	idObjectID
	idUUID
	idUUIDOld
	idNumber
)

// kindOf is the kind of an id that IDText took.
func kindOf(v Value) IDKind {
	switch v.Type {
	case bson.TypeObjectID:
		return idObjectID
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble:
		return idNumber
	case bson.TypeBinary:
		if subtype, _ := v.Binary(); subtype == bson.TypeBinaryUUIDOld {
			return idUUIDOld
		}
		return idUUID
	}
	return idString
}

// AppendIDs appends what a document's id may be whose text is given: one value where the kind is known, else one of each
// type that has this text.
func AppendIDs(ids bson.A, kind IDKind, text string) bson.A {
	wants := func(k IDKind) bool { return kind == 0 || kind == k }
	if wants(idString) {
		ids = append(ids, text)
	}
	if wants(idObjectID) && len(text) == 24 {
		if id, err := bson.ObjectIDFromHex(text); err == nil && strings.ToLower(text) == text {
			ids = append(ids, id)
		}
	}
	if b, ok := ParseUUID(text); ok {
		if wants(idUUID) {
			ids = append(ids, bson.Binary{Subtype: bson.TypeBinaryUUID, Data: b})
		}
		if wants(idUUIDOld) {
			ids = append(ids, bson.Binary{Subtype: bson.TypeBinaryUUIDOld, Data: b})
		}
	}
	if wants(idNumber) {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(n, 10) == text {
			ids = append(ids, n) // numbers of all types are equal if their values are
		}
	}
	return ids
}

// ParseUUID reads the text that appendUUID writes.
func ParseUUID(text string) ([]byte, bool) {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' || strings.ToLower(text) != text {
		return nil, false
	}
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	return b, err == nil && len(b) == 16
}
