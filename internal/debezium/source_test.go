package debezium_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/internal/debezium"
)

var pipelineLine = regexp.MustCompile(`(?m)^pipeline: (\S+)`)

// pipelineOf is the name that is made of topic.prefix.
func pipelineOf(t *testing.T, prefix string) string {
	t.Helper()
	yaml := imported(t, environment(), "application.properties", text(t, "server.properties")+"\ndebezium.source.topic.prefix="+prefix+"\n")
	found := pipelineLine.FindStringSubmatch(yaml)
	if found == nil {
		t.Fatalf("no pipeline in\n%s", yaml)
	}
	return found[1]
}

// Two connectors with one pipeline would wait for each other's lock for ever.
func TestImportPipelinesAreDistinct(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"orders", "orders-1", "dbserver1", "a_b", strings.Repeat("x", 50)} {
		if got := pipelineOf(t, name); got != name {
			t.Errorf("%s became %s, though it is a pipeline's name as it is", name, got)
		}
	}
	made := map[string]string{}
	for _, prefix := range []string{"orders", "orders1", "orders2", "orders-1", "orders-2", "Orders", "ORDERS", "orders.1", "orders 1", "orders-", "orders_", "1orders", "2orders", "_orders",
		"заказы", "注文", "1", "2", strings.Repeat("x", 50) + "1", strings.Repeat("x", 50) + "2", strings.Repeat("x", 43) + ".1"} {
		name := pipelineOf(t, prefix)
		if !regexp.MustCompile(`^[a-z][a-z0-9_-]{0,49}$`).MatchString(name) {
			t.Errorf("%s became %s, which no pipeline may be called", prefix, name)
		}
		if other, taken := made[name]; taken {
			t.Errorf("%s and %s both became %s", other, prefix, name)
		}
		made[name] = prefix
	}
}

// A table that the heartbeat writes to is no outbox; one whose name is only part of a word there is.
func TestImportHeartbeatTable(t *testing.T) {
	t.Parallel()
	server := strings.Replace(text(t, "server.properties"), "debezium.predicates.isOutbox.pattern=.*outboxevent", "debezium.predicates.isOutbox.pattern=.*", 1)
	for query, leftOut := range map[string]bool{
		"UPDATE public.outbox_heartbeat SET ts = now()":                                   false,
		"UPDATE my_public.outbox SET ts = now()":                                          false,
		"INSERT INTO public.beat (outbox) SELECT count(*) FROM public.outbox":             false,
		"INSERT INTO public.beat VALUES ('UPDATE public.outbox')":                         false,
		"UPDATE public.beat SET ts = now() -- UPDATE public.outbox":                       false,
		"UPDATE public.beat /* INSERT INTO public.outbox */ SET ts = now()":               false,
		`UPDATE "public.outbox" SET ts = now()`:                                           false,
		"UPDATE other.outbox SET ts = now()":                                              false,
		"INSERT INTO beat VALUES (1) ON CONFLICT (id) DO UPDATE SET outbox = now()":       false,
		"DELETE FROM public.beat USING public.outbox":                                     false,
		"UPDATE public.outbox SET ts = now()":                                             true,
		"insert into Public.OUTBOX default values":                                        true,
		`INSERT INTO "public"."outbox" DEFAULT VALUES`:                                    true,
		`INSERT INTO public . "outbox"(id) VALUES (1)`:                                    true,
		"UPDATE ONLY public.outbox SET ts = now()":                                        true,
		"INSERT INTO shop.public.outbox DEFAULT VALUES":                                   true,
		"INSERT INTO outbox DEFAULT VALUES":                                               true,
		"DELETE FROM public.outbox; SELECT pg_logical_emit_message(false, 'beat', 'x')":   true,
		"WITH x AS (DELETE FROM only outbox RETURNING 1) SELECT * FROM x":                 true,
		"TRUNCATE TABLE public.outbox":                                                    true,
		"TRUNCATE public.beat, public.outbox":                                             true,
		"MERGE INTO public.outbox USING public.beat ON true WHEN MATCHED THEN DO NOTHING": true,
	} {
		yaml := imported(t, environment(), "application.properties", server+"\ndebezium.source.table.include.list=public.outbox,public.events\n"+
			"debezium.source.heartbeat.action.query="+query+"\n")
		if !has(yaml, `- name: "public.events"`) || has(yaml, `- name: "public.outbox"`) == leftOut {
			t.Errorf("by the query %s: public.outbox is to be left out: %t, and the tables are\n%s", query, leftOut, yaml)
		}
	}
}

// Where nothing else is left, the table that the heartbeat writes to may be the outbox.
func TestImportHeartbeatTableAlone(t *testing.T) {
	t.Parallel()
	text := text(t, "server.properties") + "\ndebezium.source.table.include.list=inventory.outboxevent\ndebezium.source.heartbeat.action.query=INSERT INTO inventory.outboxevent DEFAULT VALUES\n"
	_, err := debezium.Import([]debezium.File{{Name: "f", Data: []byte(text)}}, environment(), nil, bytea)
	if err == nil || !strings.Contains(err.Error(), "remove debezium.source.heartbeat.action.query") {
		t.Errorf("error %v", err)
	}
}
