package debezium

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/internal/lazyregexp"
)

// optionsOfDebezium are the names of all options that Debezium 3.6.1 and Kafka Connect 4.0 define for a source, those of a Kafka producer (producer.)
// and those of converters (converter.), sorted, one a line. A test compares them with the code of both.
//
//go:embed options.txt
var optionsOfDebezium string

// unheardOf is why an option has no effect that Debezium does not know.
const unheardOf = "Debezium does not know it either: look for a typing error"

// heard reports whether Debezium knows an option of the source. What it does not know has no effect there, and so none here. It passes the options
// of the connection on to the database's driver, so those may all have an effect.
func heard(option string) bool {
	for _, family := range []string{"database.", "driver.", "column.", "converters", "post.processors", "transforms", "predicates"} {
		if strings.HasPrefix(option, family) {
			return true
		}
	}
	return listed(option)
}

// Options that only Debezium's connectors for some kinds of database know. Its drivers ignore noneKnows, which are SQL Server's and Oracle's.
var (
	postgresKnows   = lazyregexp.New(`^(?:plugin\.name$|slot\.|publication\.|message\.prefix\.)`)
	binlogKnows     = lazyregexp.New(`^(?:gtid|database\.ssl)\.`)
	mongoKnows      = lazyregexp.New(`^(?:collection\.|cursor\.|mongodb\.|field\.(?:exclude\.list|blacklist|renames)$)`)
	relationalKnows = lazyregexp.New(`^(?:column\.|database\.|driver\.|table\.(?:(?:in|ex)clude\.list|(?:white|black)list)$)`)
	allKnow         = lazyregexp.New(`^database\.(?:(?:in|ex)clude\.list|(?:white|black)list)$`)
	noneKnows       = lazyregexp.New(`^database\.(?:names|instance|pdb\.name|applicationIntent|encrypt)$`)
)

// knows reports whether Debezium's connector for a kind of database knows an option. Other connectors may.
func knows(kind, option string) bool {
	switch {
	case noneKnows().MatchString(option):
		return false
	case postgresKnows().MatchString(option):
		return kind == "postgres"
	case binlogKnows().MatchString(option):
		return kind == "mysql" || kind == "mariadb"
	case mongoKnows().MatchString(option):
		return kind == mongodb
	case relationalKnows().MatchString(option):
		return kind != mongodb || allKnow().MatchString(option)
	}
	return true
}

// listed reports whether an option is in the list.
func listed(option string) bool {
	_, found := slices.BinarySearch(strings.Fields(optionsOfDebezium), option)
	return found
}

// renamed refuses an option of the router that has had another name since Debezium 1, and reports whether it did.
func (c *conversion) renamed(prefix, name string) bool {
	var column, now string
	switch name {
	case "table.field.event.payload.id":
		column, now = "key", "table.field.event.key"
	case "table.field.payload":
		column, now = "payload", "table.field.event.payload"
	default:
		return false
	}
	s := c.settings[prefix+name]
	if !c.ofFirst() || c.settings[prefix+now] != nil || column == "payload" && s.value == "payload" {
		return false
	}
	c.problem(c.take(prefix+name), "names the column of the %s in Debezium 1: rename it to %s", column, now)
	return true
}

// Classes of converters that are built in.
const (
	stringConverter       = "org.apache.kafka.connect.storage.StringConverter"
	simpleHeaderConverter = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
	byteArrayConverter    = "org.apache.kafka.connect.converters.ByteArrayConverter"
	jsonConverter         = "org.apache.kafka.connect.json.JsonConverter"
	binaryDataConverter   = "io.debezium.converters.BinaryDataConverter"
	byteBufferConverter   = "io.debezium.converters.ByteBufferConverter"
	byteArraysConverter   = "io.debezium.converters.ByteArrayConverter" // as for MongoDB's outbox
)

// Classes of predicates that are evaluated, and of transformations that are known beside the router.
const (
	topicNameMatches     = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"
	recordIsTombstone    = "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone"
	regexRouter          = "org.apache.kafka.connect.transforms.RegexRouter"
	filter               = "org.apache.kafka.connect.transforms.Filter"
	byLogicalTableRouter = "io.debezium.transforms.ByLogicalTableRouter"
	extractNewState      = "io.debezium.transforms.ExtractNewRecordState"
	schemaChangeFilter   = "io.debezium.transforms.SchemaChangeEventFilter"
)

// otherPackage is why a class is refused that is called like a known one.
const otherPackage = "tailbox does not know this class, because another package makes it another class: set it to %s if it does the same, or keep Debezium for this outbox"

// classOf returns the class that a value names: in full or, as Kafka Connect takes it too, by its last part alone, also without a word at its end. meant is
// the class with that last part if the value has another package.
func classOf(value, word string, known ...string) (class, meant string) {
	for _, full := range known {
		switch last := lastPart(full); {
		case value == full, value == last, value+word == last:
			return full, ""
		case lastPart(value) == last:
			meant = full
		}
	}
	return "", meant
}

// lastPart is the name of a class without its package.
func lastPart(class string) string { return class[strings.LastIndexByte(class, '.')+1:] }
