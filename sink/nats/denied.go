package nats

import (
	"strconv"
	"strings"
	"sync"
)

// denials are what the server said about subjects that tailbox's user may not publish to. A denial does not say which message it is about, only the
// subject. Messages choose their subjects, so a denial is kept only while something is under way to its subject.
type denials struct {
	mu sync.Mutex
	// deaf says why no answer can be heard; nil: they can.
	deaf     error
	underWay map[string]underWay
	// news is closed and replaced when a denial comes.
	news chan struct{}
}

// underWay is what is published to one subject and has no answer yet.
type underWay struct {
	count  int
	denial error
}

func newDenials() denials {
	return denials{underWay: make(map[string]underWay), news: make(chan struct{})}
}

// expect notes that something is going to be published to each of these subjects. It forgets what was said about them: the user may be allowed by
// now.
func (d *denials) expect(subjects ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, subject := range subjects {
		d.underWay[subject] = underWay{count: d.underWay[subject].count + 1}
	}
}

// forget undoes expect, when each of them has its answer.
func (d *denials) forget(subjects ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, subject := range subjects {
		one := d.underWay[subject]
		if one.count--; one.count <= 0 {
			delete(d.underWay, subject)
			continue
		}
		d.underWay[subject] = one
	}
}

// deny notes what the server said about a subject.
func (d *denials) deny(subject string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one, expected := d.underWay[subject]
	if !expected {
		return // The call has ended.
	}
	one.denial = err
	d.underWay[subject] = one
	d.announce()
}

// deafen notes why no answer can be heard.
func (d *denials) deafen(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deaf = err
	d.announce()
}

// announce wakes those who wait. The caller holds mu.
func (d *denials) announce() {
	close(d.news)
	d.news = make(chan struct{})
}

// denial returns a channel that is closed at the next news, and what the server said about a subject, nil if nothing.
func (d *denials) denial(subject string) (<-chan struct{}, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deaf != nil {
		return d.news, d.deaf
	}
	return d.news, d.underWay[subject].denial
}

// orDeaf is err, or in its place why no answer can be heard: the rest follows from that.
func (d *denials) orDeaf(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deaf != nil {
		return d.deaf
	}
	return err
}

// deniedSubject finds the subject in a server's words: Permissions Violation for Publish to "subject". The server quotes the subject as Go does.
func deniedSubject(text string) (subject string, publish bool) {
	rest, publish := behind(text, `publish to "`)
	if !publish {
		rest, _ = behind(text, `subscription to "`)
	}
	if quoted, err := strconv.QuotedPrefix(`"` + rest); err == nil {
		if subject, err := strconv.Unquote(quoted); err == nil {
			return subject, publish
		}
	}
	subject, _, _ = strings.Cut(rest, `"`)
	return subject, publish
}

// behind returns what follows the first words in a text. words are in lower case and ASCII, the text may be in any.
func behind(text, words string) (rest string, found bool) {
	for at := 0; at+len(words) <= len(text); at++ {
		// Letters that change their length in lower case make it impossible to lower the whole text and to count.
		if strings.EqualFold(text[at:at+len(words)], words) {
			return text[at+len(words):], true
		}
	}
	return "", false
}
