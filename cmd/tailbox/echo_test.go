package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const echoConfig = `
pipeline: echo
source: {kind: postgres, url: "${DATABASE_URL}", slot: "${SLOT}", reconcile: 0s}
sinks: {api: {kind: http, url: "${API_URL}", format: single, bearer: "${BEARER}", headers: {X-Api-Key: "${KEY}"}}}
retry: {attempts: 1}
log: {level: debug}
admin: {listen: off}
`

// TestEndpointThatRepeatsRequests: what an endpoint repeats of the sink's own secrets is neither stored nor logged.
func TestEndpointThatRepeatsRequests(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "you sent "+req.Header.Get("Authorization")+", the key "+req.Header.Get("X-Api-Key")+" and "+req.Header.Get("X-Mark"))
	}))
	t.Cleanup(server.Close)
	r := newRig(t, echoConfig)
	r.env["API_URL"], r.env["BEARER"], r.env["KEY"] = server.URL, "s3cr3t-bearer", "s3cr3t-key"
	r.must("init")
	stop := r.relay()
	r.sql("INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('g', '1', 'Created', '{}')")
	until(t, "a dead letter", func() bool { return r.parkedStates()["dead"] == 1 })
	got := stop()
	all := got.out + got.err + r.must("dead", "list", "-o", "json") + r.ask("SELECT last_error FROM tailbox_parked")
	if strings.Contains(all, "s3cr3t") || !strings.Contains(all, "you sent Bearer ***, the key *** and") {
		t.Error(all)
	}
}
