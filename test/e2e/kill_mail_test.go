package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/quotedprintable"
	"net/mail"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// TestKillMail kills the relay again and again while it sends mails to a server that refuses some for now, closes
// connections at each step, and takes mails without saying so. A mail that the server has accepted, and said so, comes
// again only after a kill that found it unsettled.
func TestKillMail(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		if quick && kind != "postgres" {
			continue // TestKillStdout has them
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			killMail(t, kind)
		})
	}
}

func killMail(t *testing.T, kind string) {
	t.Helper()
	ledger := NewLedger("mail")
	server := servers.StartMail(t, servers.MailOptions{})
	b := NewBed(t, Options{Kind: kind, Top: []string{retryFast}, Sinks: []string{fmt.Sprintf(
		`mail: {kind: smtp, address: %q, from: shop@example.org, to: bob@example.org, subject: "message:id", text: "payload:", timeout: 1s}`, server.Addr())}})
	b.MustCommand("init")
	truth := NewTruth(b)
	load := &Load{Rate: quickRate / 10, MaxRows: 20, Delivered: ledger.Count, Backlog: 1000}
	load.Run(b)
	box := &mailbox{ledger: ledger, rand: rand.New(rand.NewPCG(b.Seed, 100)), faulty: true}
	server.On(box.step)
	all := &Trials{Bed: b, Truth: truth, Ledger: ledger}
	kills := killTrials(kind)
	if quick {
		kills = 5
	}
	all.Kill(trials(t, kills))
	load.Stop()
	box.behave()
	all.Finish(2 * time.Minute)
}

// mailbox keeps mails in a ledger, and misbehaves at random.
type mailbox struct {
	ledger *Ledger

	mu     sync.Mutex
	rand   *rand.Rand
	faulty bool
}

func (m *mailbox) behave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faulty = false
}

// step decides about a client's step, one at a time, so that what is kept has an order.
func (m *mailbox) step(e servers.MailEvent) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.fault(e.Step)
	if e.Step == "end" && (err == nil || errors.Is(err, servers.ErrMailKeepAndDrop)) {
		d, parseErr := parseMail(e.Mail.Data)
		if parseErr != nil {
			m.ledger.Broke("changed", "a mail is not what it should be: %v: %.200q", parseErr, e.Mail.Data)
		}
		m.ledger.Deliver(err != nil, d)
	}
	return err
}

func (m *mailbox) fault(step string) error {
	if !m.faulty || m.rand.IntN(200) > 0 {
		return nil
	}
	switch m.rand.IntN(4) {
	case 0:
		return servers.ErrMailDrop
	case 1:
		return servers.MailAnswer(451, "try later")
	case 2:
		return servers.MailAnswer(421, "closing")
	}
	if step == "end" {
		return servers.ErrMailKeepAndDrop
	}
	return nil
}

func parseMail(data []byte) (d Delivery, err error) {
	m, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return d, err
	}
	field := func(name string) string {
		text, unescapeErr := url.PathUnescape(m.Header.Get("X-Tailbox-" + name))
		err = errors.Join(err, unescapeErr)
		return text
	}
	d.ID, d.Group, d.Position = field("Id"), field("Group"), field("Position")
	attempt, numberErr := strconv.Atoi(field("Attempt"))
	d.Attempt = attempt
	payload, bodyErr := io.ReadAll(quotedprintable.NewReader(m.Body))
	d.Payload = bytes.TrimSuffix(payload, []byte("\r\n"))
	if m.Header.Get("Subject") != d.ID || !strings.Contains(m.Header.Get("Message-Id"), d.ID+"@") {
		err = errors.Join(err, fmt.Errorf("subject %q, Message-ID %q, id %q", m.Header.Get("Subject"), m.Header.Get("Message-Id"), d.ID))
	}
	return d, errors.Join(err, numberErr, bodyErr)
}
