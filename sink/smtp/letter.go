package smtp

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/mail"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tailbox/tailbox/sink"
)

// letter is a mail as it goes over the wire.
type letter struct {
	from          string // in angle brackets
	to            []recipient
	international bool // an address is not ASCII
	data          []byte
}

// recipient is one that a mail goes to.
type recipient struct {
	address string // in angle brackets
	// key of the configuration that names it for every mail; "" = the message names it.
	key string
}

// recipients are those of one part of a mail, or of one header.
type recipients struct {
	list []*mail.Address
	key  string // as of recipient
}

// parts says where the parts of a mail come from.
type parts struct {
	to, cc, bcc, replyTo, subject, text, html part
	body, attachments, toHeader               sink.Pick
}

// part is where one of them comes from. One that nobody configured may be missing, and so may the whole JSON object.
type part struct {
	sink.Pick
	configured bool
}

func newParts(cfg Config) (parts, error) {
	var errs []error
	fixed := func(text string) sink.Pick {
		p, err := sink.ParsePick(text)
		errs = append(errs, err)
		return p
	}
	choose := func(configured sink.Pick, byDefault string) part {
		if configured.IsZero() {
			return part{fixed(byDefault), false}
		}
		return part{configured, true}
	}
	p := parts{
		to: choose(cfg.To, DefaultTo), cc: choose(cfg.CC, "payload:cc"), bcc: choose(cfg.BCC, "payload:bcc"),
		replyTo: choose(cfg.ReplyTo, "payload:reply_to"), subject: choose(cfg.Subject, DefaultSubject),
		text: choose(cfg.Text, "payload:text"), html: choose(cfg.HTML, "payload:html"),
		body: fixed("payload:body"), attachments: fixed("payload:attachments"), toHeader: fixed("header:to"),
	}
	return p, errors.Join(errs...)
}

// content is a mail before it is written.
type content struct {
	to, cc, bcc, replyTo []*mail.Address
	subject              string
	text, html           string
	hasText, hasHTML     bool
	attachments          []attachment
}

type attachment struct {
	name, kind, id string
	content        []byte
}

// letter makes the mail of a delivery. An error says what is wrong with the message.
func (s *Sink) letter(d *sink.Delivery) (*letter, error) {
	if kind, _, err := mime.ParseMediaType(d.Message.ContentType); err == nil && kind == "message/rfc822" {
		return s.forward(d)
	}
	c, err := s.content(d)
	if err != nil {
		return nil, err
	}
	l := &letter{from: s.envelope}
	p := &s.parts
	if err := l.address(recipients{c.to, p.to.key("to")}, recipients{c.cc, p.cc.key("cc")}, recipients{c.bcc, p.bcc.key("bcc")}); err != nil {
		return nil, err
	}
	l.data = s.compose(d, c)
	return l, nil
}

// address fills in the recipients, each once.
func (l *letter) address(all ...recipients) error {
	seen := make(map[string]int)
	l.international = !ascii(l.from)
	for _, some := range all {
		for _, a := range some.list {
			to := bare(a)
			i, known := seen[to]
			if !known {
				seen[to] = len(l.to)
				l.to = append(l.to, recipient{to, some.key})
				l.international = l.international || !ascii(to)
			} else if some.key != "" {
				l.to[i].key = some.key
			}
		}
	}
	if len(l.to) == 0 {
		return errNoRecipient
	}
	return nil
}

// fixed is what the configuration says of every mail: the sender, and recipients.
func (s *Sink) fixed() *letter {
	var all []recipients
	p := &s.parts
	for key, one := range map[string]part{"to": p.to, "cc": p.cc, "bcc": p.bcc} {
		if text, ok := one.IsText(); ok {
			list, _ := parseAddresses(text) // Validate has seen to it that they are some.
			all = append(all, recipients{list, key})
		}
	}
	l := &letter{from: s.envelope}
	_ = l.address(all...) // It may name nobody.
	return l
}

// bare is an address as the protocol has it.
func bare(a *mail.Address) string { return (&mail.Address{Address: a.Address}).String() }

func domainOf(address string) string { return address[strings.LastIndexByte(address, '@')+1:] }

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// content finds the parts of a mail.
func (s *Sink) content(d *sink.Delivery) (c content, err error) {
	v := &sink.View{Delivery: d}
	p := &s.parts
	if c.to, err = p.recipients(v); err != nil {
		return c, err
	}
	if len(c.to) == 0 {
		return c, fmt.Errorf("%w: %s holds none", errNoRecipient, p.to)
	}
	if c.cc, err = p.cc.addresses(v, "cc"); err != nil {
		return c, err
	}
	if c.bcc, err = p.bcc.addresses(v, "bcc"); err != nil {
		return c, err
	}
	if c.replyTo, err = p.replyTo.addresses(v, "reply_to"); err != nil {
		return c, err
	}
	if c.subject, _, err = p.subject.line(v, "subject"); err != nil {
		return c, err
	}
	if c.html, c.hasHTML, err = p.html.find(v); err != nil {
		return c, fmt.Errorf("html: %w", err)
	}
	if c.text, c.hasText, err = p.text.find(v); err != nil {
		return c, fmt.Errorf("text: %w", err)
	}
	if !c.hasText && !p.text.configured {
		body := part{p.body, !c.hasHTML}
		if c.text, c.hasText, err = body.find(v); err != nil {
			return c, fmt.Errorf("body: %w", err)
		}
	}
	if c.attachments, err = s.attached(v); err != nil {
		return c, err
	}
	if !c.hasText && !c.hasHTML && len(c.attachments) == 0 {
		return c, errors.New("the mail has no text, body, html or attachments")
	}
	return c, nil
}

// recipients are those of the payload, unless the configuration says otherwise; a header takes the place of a payload
// that has none.
func (p *parts) recipients(v *sink.View) ([]*mail.Address, error) {
	if !p.to.configured {
		if raw, err := p.to.JSON(v); raw == nil || err != nil {
			list, headerErr := part{p.toHeader, true}.addresses(v, "to")
			if len(list) > 0 || headerErr != nil {
				return list, headerErr
			}
		}
	}
	return p.to.addresses(v, "to")
}

// key is name where the configuration says what the part is in every mail; "" if the message does.
func (p part) key(name string) string {
	if _, fixed := p.IsText(); !fixed {
		return ""
	}
	return name
}

// find is the part's text. One that is not configured may lie in a payload that is no JSON object.
func (p part) find(v *sink.View) (text string, ok bool, err error) {
	raw, err := p.JSON(v)
	if err != nil && p.configured {
		return "", false, err
	}
	if raw == nil || err != nil {
		return "", false, nil
	}
	return p.Text(v)
}

// named is the part's name, with where the configuration takes it from.
func (p part) named(name string) string {
	if !p.configured {
		return name
	}
	return fmt.Sprintf("%s (%s)", name, p.Pick)
}

// line is the part's text, in one line.
func (p part) line(v *sink.View, name string) (text string, ok bool, err error) {
	if text, ok, err = p.find(v); err != nil {
		return "", false, fmt.Errorf("%s: %w", p.named(name), err)
	}
	if !oneLine(text) {
		return "", false, fmt.Errorf("%s: it has a line break or another control character", p.named(name))
	}
	return text, ok, nil
}

// oneLine refuses what could end a header and begin another one.
func oneLine(s string) bool {
	for _, r := range s {
		if r < ' ' && r != '\t' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
			return false
		}
	}
	return true
}

// addresses reads a text with one or more addresses, or a list of such texts.
func (p part) addresses(v *sink.View, name string) ([]*mail.Address, error) {
	required := p.configured || name == "to"
	raw, err := p.JSON(v)
	if err != nil && required {
		return nil, fmt.Errorf("%s: %w", p.named(name), err)
	}
	if raw == nil || err != nil {
		return nil, nil
	}
	var texts []string
	switch raw[0] {
	case '"':
		texts = make([]string, 1)
		err = json.Unmarshal(raw, &texts[0])
	case '[':
		err = json.Unmarshal(raw, &texts)
	default:
		err = errors.New("no text")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: want an address, or a list of addresses", p.named(name))
	}
	var all []*mail.Address
	for _, text := range texts {
		if strings.TrimSpace(text) == "" {
			continue
		}
		list, err := parseAddresses(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.named(name), err)
		}
		all = append(all, list...)
	}
	return all, nil
}

// parseAddresses reads one or more addresses.
func parseAddresses(text string) ([]*mail.Address, error) {
	if !oneLine(text) {
		return nil, errors.New("an address has a line break or another control character")
	}
	list, err := mail.ParseAddressList(text)
	if err != nil {
		return nil, err
	}
	for _, a := range list {
		if !oneLine(a.Name) || !oneLine(a.Address) || len(a.Address) > 320 {
			return nil, errors.New("an address is too long, or has a control character")
		}
	}
	return list, nil
}

// attached reads the payload's attachments.
func (s *Sink) attached(v *sink.View) ([]attachment, error) {
	raw, err := s.parts.attachments.JSON(v)
	if raw == nil || err != nil {
		return nil, nil // The payload is no JSON object, and nothing else asked for one.
	}
	var list []struct {
		Filename    string `json:"filename"`
		ContentType string `json:"content_type"`
		ContentID   string `json:"content_id"`
		Content     string `json:"content"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, errors.New(`attachments: want a list of {"filename": …, "content_type": …, "content": base64}`)
	}
	all := make([]attachment, len(list))
	for i, one := range list {
		a := attachment{name: one.Filename, kind: one.ContentType, id: one.ContentID}
		if a.kind == "" {
			a.kind = "application/octet-stream"
		}
		kind, params, err := mime.ParseMediaType(a.kind)
		if err != nil || !strings.Contains(kind, "/") || strings.HasPrefix(kind, "multipart/") {
			return nil, fmt.Errorf("attachments: number %d: content_type is none of an attachment", i+1)
		}
		if a.kind = mime.FormatMediaType(kind, params); a.kind == "" || !oneLine(a.name) || !oneLine(a.id) || strings.ContainsAny(a.id, "<> ") || !ascii(a.id) {
			return nil, fmt.Errorf("attachments: number %d: filename, content_type or content_id has a character that it may not have", i+1)
		}
		if a.content, err = base64.StdEncoding.DecodeString(one.Content); err != nil {
			return nil, fmt.Errorf("attachments: number %d: content is not base64: %w", i+1, err)
		}
		all[i] = a
	}
	return all, nil
}

// written is when the message came about, which is the mail's date: the same at each attempt.
func written(d *sink.Delivery) time.Time {
	switch {
	case !d.Timestamp.IsZero():
		return d.Timestamp
	case !d.Message.CreatedAt.IsZero():
		return d.Message.CreatedAt
	case !d.Message.CommitTime.IsZero():
		return d.Message.CommitTime
	}
	return time.Now()
}
