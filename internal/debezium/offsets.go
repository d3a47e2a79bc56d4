package debezium

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// An offset is where a connector stopped, as Kafka Connect keeps it: by the connector's name and a partition, which holds the topic prefix.
type offset struct {
	file, key string
	value     *tree
}

// consumed is a line of a console consumer that prints keys: an offset as Kafka Connect's topic has it.
var consumed = regexp.MustCompile(`(?m)^(\["[^"\n]*",\{[^\n]*\}\])[\t ]+(\{[^\n]*\}|null)\r?$`)

// readOffsets reads a file of offsets: that of Debezium Server, what Kafka Connect answers to GET /connectors/NAME/offsets, lines of its topic of offsets
// with their keys, or one offset alone. ok is false for files of another form.
func (c *conversion) readOffsets(file string, data []byte) (ok bool) {
	defer func() {
		if ok {
			c.offsetFiles = append(c.offsetFiles, file)
		}
	}()
	take := func(key, value string) {
		t, err := readJSON([]byte(value))
		if err != nil {
			c.problems = append(c.problems, &Problem{file: file, Key: "offset", Reason: fmt.Sprintf("of %s cannot be read: %v", key, err)})
			return
		}
		c.offsets = slices.DeleteFunc(c.offsets, func(o offset) bool { return o.file == file && o.key == key }) // the last one counts
		if t.kind == mapping {
			c.offsets = append(c.offsets, offset{file, key, t})
		}
	}
	if bytes.HasPrefix(data, []byte(javaMagic)) {
		stored, err := readJavaMap(data)
		if err != nil {
			c.problems = append(c.problems, &Problem{file: file, Key: "offsets", Reason: fmt.Sprintf("cannot be read: %v: give the file that offset.storage.file.filename names", err)})
		}
		for _, pair := range stored {
			take(pair[0], pair[1])
		}
		return true
	}
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\uFEFF")))
	if lines := consumed.FindAllSubmatch(data, -1); len(lines) > 0 {
		for _, line := range lines {
			take(string(line[1]), string(line[2]))
		}
		return true
	}
	if !bytes.HasPrefix(data, []byte("{")) {
		return false
	}
	t, err := readJSON(data)
	switch {
	case err != nil:
		return false
	case t.get("offsets") != nil && t.get("offsets").kind == sequence:
		for _, item := range t.get("offsets").items {
			if value := item.get("offset"); value != nil && value.kind == mapping {
				c.offsets = append(c.offsets, offset{file, words(item.get("partition")), value})
			}
		}
		return true
	case t.is("resume_token") != "", t.is("file") != "" && t.is("pos") != "", t.is("sec") != "" && t.is("ord") != "":
		c.offsets = append(c.offsets, offset{file, "", t})
		return true
	}
	return false
}

// words are the values of a partition, for finding a topic prefix in it.
func words(t *tree) string {
	var all []string
	if t != nil {
		for _, f := range t.fields {
			all = append(all, fmt.Sprintf("%q:%q", f.key, f.value.text))
		}
	}
	return strings.Join(all, ",")
}

// overlaps reports whether tailbox has to begin while Debezium runs, because nothing tells where that stopped.
func (c *conversion) overlaps() bool {
	return c.kind != "" && c.kind != "postgres" && len(c.offsetFiles) == 0
}

// leftOff writes where Debezium stopped.
func (c *conversion) leftOff() {
	if len(c.offsetFiles) == 0 {
		return
	}
	found := c.offsets
	if prefix := c.topicPrefix(); prefix != nil {
		found = slices.DeleteFunc(slices.Clone(found), func(o offset) bool { return o.key != "" && !strings.Contains(o.key, `:"`+prefix.value+`"`) })
	}
	refuse := func(reason string, args ...any) {
		c.problems = append(c.problems, &Problem{file: c.offsetFiles[0], Key: "offsets", Reason: fmt.Sprintf(reason, args...)})
	}
	if len(found) != 1 {
		refuse("hold %d positions of this connector among %d: give those of one connector, whose topic.prefix is the one in its configuration; if it has none, leave the file out, "+
			"and follow the steps without offsets", len(found), len(c.offsets))
		return
	}
	at := found[0].value
	if running := strings.ToLower(at.is("snapshot")); at.is("initsync") == "true" || running != "" && running != "false" && at.is("snapshot_completed") != "true" {
		refuse("say that the snapshot has not ended: let Debezium end it, and send one message after it")
		return
	}
	c.out.note(1, "from "+oneLine(found[0].file)+": go on from where Debezium stopped")
	if c.kind == mongodb {
		token, err := tokenText(at)
		if err != nil {
			refuse("have no resume token that can be read: %v", err)
			return
		}
		c.out.set(1, "take_over", "{resume_token: "+quoted(token)+"}", "")
		return
	}
	if at.is("file") == "" || at.is("pos") == "" {
		refuse("have no file and pos: they are not of MySQL or MariaDB")
		return
	}
	text := "{file: " + quoted(at.is("file")) + ", pos: " + quoted(at.is("pos"))
	if gtids := strings.Join(strings.Fields(at.is("gtids")), ""); gtids != "" {
		text += ", gtids: " + quoted(gtids)
	}
	c.out.set(1, "take_over", text+"}", "")
}

// tokenText is the text of a resume token as Debezium keeps it: that text itself, or the token's BSON in base64. If it kept none, it is made of the time.
func tokenText(at *tree) (string, error) {
	kept := at.is("resume_token")
	if kept == "" {
		sec, err1 := strconv.ParseUint(at.is("sec"), 10, 32)
		ord, err2 := strconv.ParseUint(at.is("ord"), 10, 32)
		if err1 != nil || err2 != nil || sec == 0 {
			return "", errors.New("it is missing")
		}
		return fmt.Sprintf("82%08X%08X", sec, ord), nil
	}
	raw, err := base64.StdEncoding.DecodeString(kept)
	if err != nil || len(raw) < 5 || int(binary.LittleEndian.Uint32(raw)) != len(raw) {
		return kept, nil
	}
	text, ok := bson.Raw(raw).Lookup("_data").StringValueOK()
	if !ok {
		return "", errors.New("it has no text _data")
	}
	return text, nil
}

// javaMagic begins what Java serializes.
const javaMagic = "\xac\xed\x00\x05"

// Java's object serialization, as far as a HashMap of arrays of bytes needs it: java.io.ObjectStreamConstants names these.
const (
	javaNull      = 0x70
	javaReference = 0x71
	javaClass     = 0x72
	javaObject    = 0x73
	javaArray     = 0x75
	javaBlock     = 0x77
	javaEnd       = 0x78
)

var errJava = errors.New("it is no HashMap of byte arrays as Java writes it")

// A javaReader takes bytes off the front. What is missing sets bad.
type javaReader struct {
	b   []byte
	bad bool
}

func (r *javaReader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad, r.b = true, nil
		return make([]byte, min(max(n, 0), 8))
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *javaReader) byte() byte { return r.take(1)[0] }
func (r *javaReader) int() int   { return int(int32(binary.BigEndian.Uint32(r.take(4)))) }
func (r *javaReader) text() string {
	return string(r.take(int(binary.BigEndian.Uint16(r.take(2)))))
}

// class reads a description of a class, and returns its name; "" for one that was described before.
func (r *javaReader) class() string {
	switch r.byte() {
	case javaReference:
		r.take(4)
		return ""
	case javaClass:
	default:
		r.bad = true
		return ""
	}
	name := r.text()
	r.take(8 + 1) // its version and flags
	for range int(binary.BigEndian.Uint16(r.take(2))) {
		r.byte() // a primitive type
		r.text()
	}
	if r.byte() != javaEnd || r.byte() != javaNull {
		r.bad = true
	}
	return name
}

// bytes reads an array of bytes.
func (r *javaReader) bytes() (text string, null bool) {
	switch r.byte() {
	case javaNull:
		return "", true
	case javaArray:
	default:
		r.bad = true
		return "", false
	}
	if name := r.class(); name != "" && name != "[B" {
		r.bad = true
	}
	return string(r.take(r.int())), false
}

// readJavaMap reads a java.util.HashMap of byte arrays, with which Kafka Connect's FileOffsetBackingStore writes offsets. A value that is null is read
// as such in JSON.
func readJavaMap(data []byte) (pairs [][2]string, err error) {
	r := &javaReader{b: data[len(javaMagic):]}
	if r.byte() != javaObject || r.class() != "java.util.HashMap" {
		return nil, errJava
	}
	r.take(4 + 4) // loadFactor, threshold
	if r.byte() != javaBlock || r.byte() != 8 {
		return nil, errJava
	}
	r.int() // its capacity
	for n := r.int(); n > 0 && !r.bad; n-- {
		key, _ := r.bytes()
		value, null := r.bytes()
		if null {
			value = "null"
		}
		pairs = append(pairs, [2]string{key, value})
	}
	if r.byte() != javaEnd || r.bad {
		return nil, errJava
	}
	return pairs, nil
}
