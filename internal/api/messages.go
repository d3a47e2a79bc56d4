package api

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tailbox/tailbox/outbox"
)

// messageOperations are there if the API may write messages.
func (s *server) messageOperations() {
	if s.Write == nil {
		return
	}
	const path = "/messages"
	register(s, "write-message", http.MethodPost, path, Admin,
		"Writes a message into the outbox, as an application does. The relay then delivers it like any other. If an answer is lost, ask again with the same id: if the row is still in the outbox, that is 409. "+
			"If it was delivered and deleted meanwhile, it is delivered again, with the same id.", s.writeMessage)
	responses := s.api.OpenAPI().Paths[path].Post.Responses
	responses["201"], responses["409"] = responses["202"], responses["422"]
	delete(responses, "202")
}

type messageBody struct {
	Body struct {
		Table          string            `json:"table,omitempty" doc:"The outbox table, with or without its schema. Default: the first of the configuration."`
		ID             string            `json:"id,omitempty" doc:"Default: one is made."`
		Type           string            `json:"type"`
		Topic          string            `json:"topic,omitempty"`
		Group          string            `json:"group,omitempty"`
		Key            string            `json:"key,omitempty"`
		Payload        *string           `json:"payload,omitempty" doc:"Default: NULL."`
		PayloadBase64  *string           `json:"payload_base64,omitempty" doc:"A payload that is no UTF-8, instead of payload."`
		Headers        map[string]string `json:"headers,omitempty"`
		IdempotencyKey string            `json:"idempotency_key,omitempty" doc:"If a message with this key is in the outbox, the answer is 409."`
	}
}

type messageAnswer struct {
	Status int `json:"-"`
	Body   struct {
		ID    string `json:"id"`
		Table string `json:"table"`
	}
}

func (s *server) writeMessage(ctx context.Context, in *messageBody) (*messageAnswer, error) {
	b := &in.Body
	d := outbox.Draft{ID: b.ID, Type: b.Type, Topic: b.Topic, Group: b.Group, Key: b.Key, Headers: b.Headers, IdempotencyKey: b.IdempotencyKey}
	texts := []string{b.Table, d.ID, d.Type, d.Topic, d.Group, d.Key, d.IdempotencyKey}
	for name, value := range d.Headers {
		texts = append(texts, name, value)
	}
	if slices.ContainsFunc(texts, unwritable) {
		return nil, huma.Error422UnprocessableEntity("a text holds NUL or is no UTF-8: only payload_base64 may hold any bytes")
	}
	var err error
	if d.Payload, err = payloadOf(b.Payload, b.PayloadBase64); err != nil {
		return nil, err
	}
	a := &messageAnswer{Status: http.StatusCreated}
	err = s.askIn(ctx, s.writes, queryTime, func(ctx context.Context) (err error) {
		a.Body.ID, a.Body.Table, err = s.Write(ctx, b.Table, d)
		if wrong, ok := errors.AsType[*outbox.DraftError](err); ok {
			return huma.Error422UnprocessableEntity(s.Hide(wrong.Error()))
		}
		switch {
		case errors.Is(err, ErrNoTable):
			return huma.Error422UnprocessableEntity(err.Error())
		case errors.Is(err, outbox.ErrDuplicate):
			return huma.Error409Conflict("a message with this id or idempotency_key is in the outbox already, and nothing was written")
		}
		return err
	})
	if err == nil {
		s.Logger.Info("message written", "by", who(ctx).Name, "id", a.Body.ID, "table", a.Body.Table)
	}
	return a, err
}

// ErrNoTable means that the configuration does not have the table of a message.
var ErrNoTable = errors.New("table")
