package debezium

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/internal/debezium/forms"
	"github.com/tailbox/tailbox/internal/lazyregexp"
)

// An offset is where a connector stopped, as Kafka Connect keeps it: by the connector's name and a partition, which holds the topic prefix.
type offset struct {
	file, key string
	value     *forms.Tree
}

// consumed is a line of a console consumer that prints keys: an offset as Kafka Connect's topic has it.
var consumed = lazyregexp.New(`(?m)^(\["[^"\n]*",\{[^\n]*\}\])[\t ]+(\{[^\n]*\}|null)\r?$`)

// readOffsets reads a file of offsets: that of Debezium Server, what Kafka Connect answers to GET /connectors/NAME/offsets, lines of its topic of offsets
// with their keys, or one offset alone. ok is false for files of another form.
func (c *conversion) readOffsets(file string, data []byte) (ok bool) {
	defer func() {
		if ok {
			c.offsetFiles = append(c.offsetFiles, file)
		}
	}()
	take := func(key, value string) {
		t, err := forms.ReadJSON([]byte(value))
		if err != nil {
			c.problems = append(c.problems, &Problem{file: file, Key: "offset", Reason: fmt.Sprintf("of %s cannot be read: %v", key, err)})
			return
		}
		c.offsets = slices.DeleteFunc(c.offsets, func(o offset) bool { return o.file == file && o.key == key }) // the last one counts
		if t.Kind == forms.Mapping {
			c.offsets = append(c.offsets, offset{file, key, t})
		}
	}
	if bytes.HasPrefix(data, []byte(forms.JavaMagic)) {
		stored, err := forms.ReadJavaMap(data)
		if err != nil {
			c.problems = append(c.problems, &Problem{file: file, Key: "offsets", Reason: fmt.Sprintf("cannot be read: %v: give the file that offset.storage.file.filename names", err)})
		}
		for _, pair := range stored {
			take(pair[0], pair[1])
		}
		return true
	}
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\uFEFF")))
	if lines := consumed().FindAllSubmatch(data, -1); len(lines) > 0 {
		for _, line := range lines {
			take(string(line[1]), string(line[2]))
		}
		return true
	}
	if !bytes.HasPrefix(data, []byte("{")) {
		return false
	}
	t, err := forms.ReadJSON(data)
	switch {
	case err != nil:
		return false
	case t.Get("offsets") != nil && t.Get("offsets").Kind == forms.Sequence:
		for _, item := range t.Get("offsets").Items {
			if value := item.Get("offset"); value != nil && value.Kind == forms.Mapping {
				c.offsets = append(c.offsets, offset{file, words(item.Get("partition")), value})
			}
		}
		return true
	case t.Is("resume_token") != "", t.Is("file") != "" && t.Is("pos") != "", t.Is("sec") != "" && t.Is("ord") != "":
		c.offsets = append(c.offsets, offset{file, "", t})
		return true
	}
	return false
}

// words are the values of a partition, for finding a topic prefix in it.
func words(t *forms.Tree) string {
	var all []string
	if t != nil {
		for _, f := range t.Fields {
			all = append(all, fmt.Sprintf("%q:%q", f.Key, f.Value.Text))
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
	prefix := c.topicPrefix()
	if prefix != nil && prefix.fault != "" {
		return // take reports it
	}
	if prefix != nil {
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
	if running := strings.ToLower(at.Is("snapshot")); at.Is("initsync") == "true" || running != "" && running != "false" && at.Is("snapshot_completed") != "true" {
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
	if at.Is("file") == "" || at.Is("pos") == "" {
		refuse("have no file and pos: they are not of MySQL or MariaDB")
		return
	}
	text := "{file: " + quoted(at.Is("file")) + ", pos: " + quoted(at.Is("pos"))
	if gtids := strings.Join(strings.Fields(at.Is("gtids")), ""); gtids != "" {
		text += ", gtids: " + quoted(gtids)
	}
	c.out.set(1, "take_over", text+"}", "")
}

// tokenText is the text of a resume token as Debezium keeps it: that text itself, or the token's BSON in base64. If it kept none, it is made of the time.
func tokenText(at *forms.Tree) (string, error) {
	kept := at.Is("resume_token")
	if kept == "" {
		sec, err1 := strconv.ParseUint(at.Is("sec"), 10, 32)
		ord, err2 := strconv.ParseUint(at.Is("ord"), 10, 32)
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
