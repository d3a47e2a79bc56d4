package smtp

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// compose writes a mail. Messages that are alike give the same bytes at each attempt, but for X-Tailbox-Attempt.
func (s *Sink) compose(d *sink.Delivery, c content) []byte {
	b := new(bytes.Buffer)
	field(b, "Date", written(d).Format(time.RFC1123Z))
	addressField(b, "From", []*mail.Address{&s.from})
	addressField(b, "To", c.to)
	addressField(b, "Cc", c.cc)
	addressField(b, "Reply-To", c.replyTo)
	if c.subject != "" {
		field(b, "Subject", mime.QEncoding.Encode("utf-8", c.subject))
	}
	field(b, "Message-ID", s.messageID(d))
	s.metadata(b, d)
	field(b, "MIME-Version", "1.0")
	// Nobody who writes a payload can know the boundary, which depends on it.
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%d\n%d\n", s.messageID(d), len(c.text), len(c.html))
	sum.Write(d.Value)
	boundary := hex.EncodeToString(sum.Sum(nil))[:40]
	if len(c.attachments) == 0 {
		body(b, c, "a"+boundary)
		return b.Bytes()
	}
	mixed := "m" + boundary
	field(b, "Content-Type", `multipart/mixed; boundary="`+mixed+`"`)
	b.WriteString("\r\n")
	if c.hasText || c.hasHTML {
		b.WriteString("--" + mixed + "\r\n")
		body(b, c, "a"+boundary)
	}
	for i := range c.attachments {
		b.WriteString("\r\n--" + mixed + "\r\n")
		c.attachments[i].write(b)
	}
	b.WriteString("\r\n--" + mixed + "--\r\n")
	return b.Bytes()
}

// body writes the text, the HTML, or both as alternatives, with their headers.
func body(b *bytes.Buffer, c content, boundary string) {
	if !c.hasText || !c.hasHTML {
		if c.hasHTML {
			textPart(b, "html", c.html)
		} else {
			textPart(b, "plain", c.text)
		}
		return
	}
	field(b, "Content-Type", `multipart/alternative; boundary="`+boundary+`"`)
	b.WriteString("\r\n--" + boundary + "\r\n")
	textPart(b, "plain", c.text)
	b.WriteString("\r\n--" + boundary + "\r\n")
	textPart(b, "html", c.html)
	b.WriteString("\r\n--" + boundary + "--\r\n")
}

func textPart(b *bytes.Buffer, kind, text string) {
	field(b, "Content-Type", "text/"+kind+"; charset=utf-8")
	field(b, "Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(b)
	// A buffer takes everything: there is no error.
	_, _ = w.Write([]byte(text))
	_ = w.Close()
}

func (a *attachment) write(b *bytes.Buffer) {
	field(b, "Content-Type", a.kind)
	disposition := "attachment"
	if a.id != "" {
		disposition = "inline"
		field(b, "Content-ID", "<"+a.id+">")
	}
	if a.name != "" {
		disposition = mime.FormatMediaType(disposition, map[string]string{"filename": a.name})
	}
	field(b, "Content-Disposition", disposition)
	field(b, "Content-Transfer-Encoding", "base64")
	b.WriteString("\r\n")
	const line = 57 // bytes, which are 76 characters
	text := make([]byte, base64.StdEncoding.EncodedLen(line))
	for rest := a.content; len(rest) > 0; {
		piece := rest[:min(line, len(rest))]
		rest = rest[len(piece):]
		n := base64.StdEncoding.EncodedLen(len(piece))
		base64.StdEncoding.Encode(text[:n], piece)
		b.Write(text[:n])
		b.WriteString("\r\n")
	}
}

const (
	// foldAt is where lines of headers are broken if they can be, maxLine what no line may exceed.
	foldAt  = 76
	maxLine = 900
)

// field writes a header, folded at spaces. Words that are too long for a line of a mail are cut, which only happens to
// what no sensible mail has.
func field(b *bytes.Buffer, name, value string) {
	b.WriteString(name + ":")
	length := len(name) + 1
	for word := range strings.SplitSeq(value, " ") {
		if word == "" && length >= maxLine {
			continue // no line holds so many spaces
		}
		// A line of nothing but spaces would end the headers for some readers.
		if word != "" && length > len(name)+1 && length+1+len(word) > foldAt {
			b.WriteString("\r\n")
			length = 0
		}
		b.WriteByte(' ')
		length++
		for len(word) > maxLine {
			b.WriteString(word[:maxLine] + "\r\n ")
			word, length = word[maxLine:], 1
		}
		b.WriteString(word)
		length += len(word)
	}
	b.WriteString("\r\n")
}

func addressField(b *bytes.Buffer, name string, list []*mail.Address) {
	if len(list) == 0 {
		return
	}
	texts := make([]string, len(list))
	for i, a := range list {
		texts[i] = a.String()
	}
	field(b, name, strings.Join(texts, ", "))
}

// messageID is made of the message's id. Receivers drop mails whose Message-ID they have, so that it is unique beyond the
// message's table.
func (s *Sink) messageID(d *sink.Delivery) string {
	const most = 200
	id := sink.UniqueID(d)
	var b strings.Builder
	b.WriteByte('<')
	for i := range len(id) {
		c := id[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' ||
			c == '.' && i > 0 && i < len(id)-1 && id[i-1] != '.' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	if b.Len() > most {
		sum := sha256.Sum256([]byte(id))
		b.Reset()
		b.WriteString("<" + hex.EncodeToString(sum[:]))
	}
	return b.String() + "@" + s.domain + ">"
}

// The names of headers that the relay adds begin with metadataPrefix. metadataAttempt is the one that differs between the attempts of a mail.
const (
	metadataPrefix  = "X-Tailbox-"
	metadataAttempt = "Attempt"
)

// metadata writes what the relay knows of the message.
func (s *Sink) metadata(b *bytes.Buffer, d *sink.Delivery) {
	if s.cfg.OmitMetadata {
		return
	}
	m := d.Message
	for _, one := range [][2]string{
		{"Id", m.ID}, {"Type", m.Type}, {"Group", m.GroupText()}, {"Position", m.Position.String()},
		{metadataAttempt, fmt.Sprint(d.Attempt)}, {"Source", d.Source},
	} {
		if one[1] != "" {
			field(b, metadataPrefix+one[0], visible(one[1]))
		}
	}
}

// visible is s with everything but visible ASCII as %XX.
func visible(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '%' {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
