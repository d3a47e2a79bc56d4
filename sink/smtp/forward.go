package smtp

import (
	"bytes"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// errRaw is for a whole mail that the sink was not told to send.
var errRaw = errors.New("its content type is message/rfc822, a whole mail, which may have any sender: the sink sends it only with raw: true")

// forward sends a payload that is a mail, nearly as it is. What speaks for those who sent or carried a mail is taken out, as is Bcc. From, Date
// and Message-ID are put in if they are missing. Line breaks become those of mails.
func (s *Sink) forward(d *sink.Delivery) (*letter, error) {
	if !s.cfg.Raw {
		return nil, errRaw
	}
	text := bytes.ReplaceAll(d.Value, []byte("\r\n"), []byte("\n"))
	if i := bytes.IndexAny(text, "\r\x00"); i >= 0 {
		return nil, errors.New("the mail has a carriage return without a line feed, or a NUL")
	}
	if line := longest(text); line > 998 {
		return nil, fmt.Errorf("the mail has a line of %d bytes, more than 998", line)
	}
	parsed, err := mail.ReadMessage(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read the mail: %w", err)
	}
	l := &letter{from: s.envelope}
	all, err := s.recipients(d, parsed.Header)
	if err != nil {
		return nil, err
	}
	if err := l.address(all...); err != nil {
		return nil, err
	}
	b := new(bytes.Buffer)
	for _, missing := range []struct{ name, value string }{
		{"Date", written(d).Format(time.RFC1123Z)}, {"From", s.from.String()}, {"Message-ID", s.messageID(d)},
	} {
		if parsed.Header.Get(missing.name) == "" {
			field(b, missing.name, missing.value)
		}
	}
	s.metadata(b, d)
	withoutForeign(b, text)
	l.data = b.Bytes()
	return l, nil
}

// recipients are those of the mail's own headers, unless the configuration takes to from elsewhere; and those whom the configuration names for
// every mail.
func (s *Sink) recipients(d *sink.Delivery, h mail.Header) (all []recipients, err error) {
	for _, fixed := range []struct {
		name string
		part part
	}{{"to", s.parts.to}, {"cc", s.parts.cc}, {"bcc", s.parts.bcc}} {
		if fixed.part.configured {
			list, err := fixed.part.addresses(&sink.View{Delivery: d}, fixed.name)
			if err != nil {
				return nil, err
			}
			all = append(all, recipients{list, fixed.part.key(fixed.name)})
		}
	}
	if s.parts.to.configured {
		return all, nil
	}
	for _, name := range []string{"To", "Cc", "Bcc"} {
		for _, text := range h[name] {
			if strings.TrimSpace(text) == "" {
				continue
			}
			list, err := mail.ParseAddressList(text)
			if err != nil {
				return nil, fmt.Errorf("header %s: %w", name, err)
			}
			for _, a := range list {
				if !oneLine(a.Address) || len(a.Address) > 320 {
					return nil, fmt.Errorf("header %s: an address is too long, or has a control character", name)
				}
			}
			all = append(all, recipients{list: list})
		}
	}
	return all, nil
}

// foreign reports whether the sink drops a header of a payload. Bcc must stay hidden, X-Tailbox-* belong to the relay, and the others name who else has
// sent or carried the mail.
func foreign(name []byte) bool {
	text := strings.ToLower(string(bytes.TrimSpace(name)))
	switch text {
	case "bcc", "return-path", "sender":
		return true
	}
	return strings.HasPrefix(text, "resent-") || strings.HasPrefix(text, "x-tailbox-")
}

// withoutForeign copies a mail, whose lines end with a line feed, without the headers that do not go with it.
func withoutForeign(b *bytes.Buffer, text []byte) {
	skipping := false
	for len(text) > 0 {
		line := text
		if end := bytes.IndexByte(text, '\n'); end >= 0 {
			line = text[:end+1]
		}
		if len(line) == 1 {
			break // The body begins.
		}
		if line[0] != ' ' && line[0] != '\t' {
			name, _, _ := bytes.Cut(line, []byte{':'})
			skipping = foreign(name)
		}
		if !skipping {
			b.Write(line)
		}
		text = text[len(line):]
	}
	b.Write(text)
}

// longest is the length of the longest line.
func longest(text []byte) (most int) {
	for line := range bytes.SplitSeq(text, []byte{'\n'}) {
		most = max(most, len(line))
	}
	return most
}
