package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/internal/history"
	"github.com/tailbox/tailbox/internal/tail"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store/operate"
	"github.com/tailbox/tailbox/source/store/report"
)

// Config is what a server is made of.
type Config struct {
	Pipeline string
	Version  string
	Started  time.Time
	Database operate.Database
	// Sinks returns those of the configuration, and Kind the kind of one. State returns what this process knows of a sink's state; "" if it does not relay.
	Sinks func() []string
	Kind  func(sink string) string
	State func(sink string) string
	// History returns what this process did since a moment, at most an hour ago.
	History func(since time.Time) []history.Point
	// Tail hands out what this process delivers.
	Tail *tail.Hub
	// Configuration returns the effective configuration as YAML, with secrets masked.
	Configuration func() string
	// Reload reads the configuration again; see Reloaded.
	Reload func(ctx context.Context, dryRun bool) (*Reloaded, error)
	// Write writes a message into the outbox table of that name, "" for the first, and returns its id and the table. nil: the API must not write. An error may
	// be an *outbox.DraftError, outbox.ErrDuplicate or ErrNoTable.
	Write func(ctx context.Context, table string, d outbox.Draft) (id, of string, err error)
	// Tokens say who may do what, and by which names clients may address the server.
	Tokens *Tokens
	// Hide takes secrets out of a text.
	Hide   func(text string) string
	Logger *slog.Logger
}

const (
	// Prefix is where the API stands.
	Prefix = "/api/v1"
	// queryTime bounds one question to the database, and checkTime a whole check of it.
	queryTime, checkTime = 5 * time.Second, 20 * time.Second
	// queries bounds how many questions run at once, each on a connection of its own: the relay's connections must not run out for lists.
	queries = 4
	// maxBody bounds the body of a request, in bytes: that of an edit with its payload in base64.
	maxBody = 32 << 20
)

// server is the API of one pipeline.
type server struct {
	Config
	api      huma.API
	operator operate.Operator
	// slots, verbs, writes and checks bound how many questions, requests, messages to write, and whole checks run at once.
	slots, verbs, writes, checks chan struct{}

	share     share
	summaries *kept[*summary]
	statuses  *kept[*report.Status]
	// naming is held by whoever changes a kept status.
	naming sync.Mutex
}

// New returns a handler of everything below Prefix.
func New(c Config) http.Handler {
	s := &server{Config: c, operator: c.Database.Operator().KeepSessions(), slots: make(chan struct{}, queries), verbs: make(chan struct{}, 1), writes: make(chan struct{}, 2), checks: make(chan struct{}, 1)}
	s.summaries = newKept[*summary](func(time.Duration) time.Duration { return keptMost })
	s.statuses = newKept[*report.Status](func(took time.Duration) time.Duration { return shareOf * took })
	about := huma.DefaultConfig("tailbox", c.Version)
	about.Info.Description = "Look at a pipeline and steer it. An operation that changes something is written to tailbox_request and carried out by the relay " +
		"that holds the pipeline's lock; its answer is the id of the request, whose progress and result GET /requests/{id} shows."
	about.DocsPath, about.SchemasPath, about.CreateHooks = "", "", nil
	about.OpenAPIPath = "/openapi"
	about.RejectUnknownQueryParameters = true // a filter that is misspelled would select everything
	about.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer",
		Description: "A token of admin.tokens, or admin.token."}}
	mux := newVerbMux()
	s.api = humago.NewWithPrefix(mux, Prefix, about)
	s.api.UseMiddleware(s.authorize)
	s.pipelineOperations()
	s.deliveryOperations()
	s.requestOperations()
	s.groupOperations()
	s.sinkOperations()
	s.tailOperations()
	s.configOperations()
	s.messageOperations()
	return secured(c.Tokens.Hosts(mux))
}

// register adds an operation. method is GET or POST; role is who may call it.
func register[In, Out any](s *server, id, method, path string, role Role, about string, do func(context.Context, *In) (*Out, error)) {
	summary, more, _ := strings.Cut(about, ". ")
	op := huma.Operation{OperationID: id, Method: method, Path: path, Summary: strings.TrimSuffix(summary, "."), Description: more, Metadata: needs(role),
		Security: []map[string][]string{{"token": {}}}, MaxBodyBytes: maxBody, Tags: []string{role.String()},
		Errors: []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusServiceUnavailable,
			http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusMisdirectedRequest}}
	if method == http.MethodPost {
		op.DefaultStatus = http.StatusAccepted
	}
	if strings.Contains(path, "{") || path == "/delivery" {
		op.Errors = append(op.Errors, http.StatusNotFound)
	}
	huma.Register(s.api, op, do)
	if method == http.MethodPost { // the status of a dry run, and of what is done at once
		responses := s.api.OpenAPI().Paths[path].Post.Responses
		if strings.HasPrefix(path, "/deliveries:") && path != "/deliveries:edit" || path == "/config:reload" {
			responses["200"] = responses["202"]
		}
	}
}

// ask runs a question to the database when its turn comes, in bounded time. While several ask at once, all of them get no more than their share.
func (s *server) ask(ctx context.Context, question func(context.Context) error) error {
	return s.askIn(ctx, s.slots, queryTime, func(ctx context.Context) error {
		if len(s.slots) > 1 {
			select {
			case <-time.After(s.share.wait(time.Now())):
			case <-ctx.Done():
				return errBusy()
			}
			began := time.Now()
			defer func() { s.share.took(time.Since(began), time.Now()) }()
		}
		return question(ctx)
	})
}

func (s *server) askIn(ctx context.Context, slots chan struct{}, within time.Duration, question func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return errBusy()
	}
	err := question(ctx)
	if status := huma.StatusError(nil); err == nil || errors.As(err, &status) {
		return err
	}
	return s.fault(ctx, err)
}

func errBusy() error {
	return huma.Error503ServiceUnavailable("too many questions wait for the database: ask again later")
}

// fault is the problem that a failed question becomes. The texts of databases may hold credentials.
func (s *server) fault(ctx context.Context, err error) error {
	text := s.Hide(err.Error())
	switch {
	case errors.Is(err, checkpoint.ErrNoTables):
		return huma.Error503ServiceUnavailable("the pipeline's tables are missing: run tailbox init")
	case ctx.Err() != nil:
		return huma.Error503ServiceUnavailable("the database did not answer in time: ask for less, or again later: " + text)
	case errors.Is(err, source.ErrStop):
		return huma.Error503ServiceUnavailable(text)
	}
	s.Logger.Warn("the API could not answer", "error", text)
	return huma.Error503ServiceUnavailable("the database could not answer: " + text)
}

// who returns who asks, of the context of an operation.
func who(ctx context.Context) Principal {
	p, _ := ctx.Value(principalKey{}).(Principal)
	return p
}

// secured adds the headers that keep browsers from doing more with an answer than showing it.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		next.ServeHTTP(w, r)
	})
}

// problem answers with a problem of RFC 9457, where no operation was found that would.
func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	// The client is gone if this fails.
	_ = json.NewEncoder(w).Encode(huma.ErrorModel{Title: http.StatusText(status), Status: status, Detail: detail})
}
