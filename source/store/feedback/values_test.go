package feedback

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// What servers quote of a message is neither logged nor written down; names of tables and columns are.
func TestFeedbackErrorsHoldNoValues(t *testing.T) {
	t.Parallel()
	f, err := source.ParseFeedback("delivered", `UPDATE orders SET payload = :payload, answer = :receipt, card = :card WHERE id = :id::uuid`)
	if err != nil {
		t.Fatal(err)
	}
	m := &outbox.Message{Table: "t", Payload: []byte(`{"secret": "4711 \"x\""}`), Fields: []outbox.Field{{Name: "card", Value: []byte("4000-1234")}}}
	ts := []Told{{Feedback: f, Outcome: source.Outcome{RowID: "7", Kind: "delivered", Message: m, Receipt: "token abc"}}}
	for said, want := range map[string]string{
		`invalid input syntax for type uuid: "7"`:                                  `invalid input syntax for type uuid: "7"`,
		`column "payload" of relation "orders" does not exist`:                     `column "payload" of relation "orders" does not exist`,
		`invalid input syntax for type integer: "{"secret": "4711 \"x\""}"`:        "integer: \"…\"",
		`Incorrect integer value: '4000-1234' for column 'card' at row 1`:          `Incorrect integer value: '…' for column 'card' at row 1`,
		`Data too long: '4000-12...' for column 'card'`:                            `Data too long: '…' for column 'card'`,
		`new row violates check constraint "orders_card_check": 4000-1234 refused`: `new row violates check constraint "orders_card_check": … refused`,
		`a trigger says token abc`:                                                 `a trigger says …`,
	} {
		var log bytes.Buffer
		report := &Report{Logger: slog.New(slog.NewTextHandler(&log, nil))}
		run := Run{Report: report, Hopeless: func(error) bool { return false }, Passing: func(error) bool { return false },
			Chunk: func(context.Context, []Told) (int, error, error) { return 0, errors.New(said), nil }}
		if _, err := run.Tell(t.Context(), nil, func() ([]Told, error) { return ts, nil }); err != nil {
			t.Fatal(err)
		}
		failures := report.Failures()
		report.Settled()
		if len(failures) != 1 || !strings.Contains(failures[0].Error, want) {
			t.Errorf("%s: %+v, want %q", said, failures, want)
		}
		for _, secret := range []string{"4711", "4000", "abc"} {
			if strings.Contains(failures[0].Error+log.String(), secret) {
				t.Errorf("%s: %s\n%s", said, failures[0].Error, log.String())
			}
		}
		report.GiveUp(ts, errors.New(said))
		if failures := report.Failures(); len(failures) > 0 && strings.Contains(failures[0].Error, "4711") {
			t.Errorf("given up: %+v", failures)
		}
	}
}
