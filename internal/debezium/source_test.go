package debezium_test

import (
	"fmt"
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

// A heartbeat table that the query writes to is no outbox. One that it only deletes from may be, and one whose name is part of a word there.
func TestImportHeartbeatTable(t *testing.T) {
	t.Parallel()
	server := strings.Replace(text(t, "server.properties"), "debezium.predicates.isOutbox.pattern=.*outboxevent", "debezium.predicates.isOutbox.pattern=.*", 1)
	for query, leftOut := range map[string]bool{
		"UPDATE public.heartbeat_later SET ts = now()":                                        false,
		"UPDATE my_public.heartbeat SET ts = now()":                                           false,
		"INSERT INTO public.other (heartbeat) SELECT count(*) FROM public.heartbeat":          false,
		"INSERT INTO public.other VALUES ('UPDATE public.heartbeat')":                         false,
		"UPDATE public.other SET ts = now() -- UPDATE public.heartbeat":                       false,
		"UPDATE public.other /* INSERT INTO public.heartbeat */ SET ts = now()":               false,
		`UPDATE "public.heartbeat" SET ts = now()`:                                            false,
		"UPDATE other.heartbeat SET ts = now()":                                               false,
		"INSERT INTO other VALUES (1) ON CONFLICT (id) DO UPDATE SET heartbeat = now()":       false,
		"UPDATE public.heartbeat SET ts = now()":                                              true,
		"insert into Public.HEARTBEAT default values":                                         true,
		`INSERT INTO "public"."heartbeat" DEFAULT VALUES`:                                     true,
		`INSERT INTO public . "heartbeat"(id) VALUES (1)`:                                     true,
		"UPDATE ONLY public.heartbeat SET ts = now()":                                         true,
		"INSERT INTO shop.public.heartbeat DEFAULT VALUES":                                    true,
		"INSERT INTO heartbeat DEFAULT VALUES":                                                true,
		"DELETE FROM public.heartbeat; SELECT pg_logical_emit_message(false, 'other', 'x')":   false,
		"WITH x AS (DELETE FROM only heartbeat RETURNING 1) SELECT * FROM x":                  false,
		"TRUNCATE TABLE public.heartbeat":                                                     false,
		"TRUNCATE public.other, public.heartbeat":                                             false,
		"MERGE INTO public.heartbeat USING public.other ON true WHEN MATCHED THEN DO NOTHING": true,
	} {
		yaml := imported(t, environment(), "application.properties", server+"\ndebezium.source.table.include.list=public.heartbeat,public.events\n"+
			"debezium.source.heartbeat.action.query="+query+"\n")
		if !has(yaml, `- name: "public.events"`) || has(yaml, `- name: "public.heartbeat"`) == leftOut {
			t.Errorf("by the query %s: public.heartbeat is to be left out: %t, and the tables are\n%s", query, leftOut, yaml)
		}
	}
}

// The query may write to an outbox or only clean it: no outbox is left out without a word.
func TestImportHeartbeatOfOutbox(t *testing.T) {
	t.Parallel()
	server := strings.Replace(text(t, "server.properties"), "pattern=.*outboxevent", "pattern=.*", 1) + "\ndebezium.source.table.include.list=inventory.outboxevent,inventory.events,inventory.shipping_outbox\ndebezium.source.heartbeat.action.query="
	for query, want := range map[string]string{
		"DELETE FROM inventory.outboxevent WHERE created_at < now()":                 "rows that it would delete stay",
		"DELETE FROM inventory.outboxevent; INSERT INTO inventory.events VALUES (1)": "names inventory.events, which debezium.source.heartbeat.action.query writes to",
		"UPDATE inventory.shipping_outbox SET x = 1":                                 "names inventory.shipping_outbox, which",
		"INSERT INTO inventory.outboxevent DEFAULT VALUES":                           "if it is an outbox, remove debezium.source.heartbeat.action.query",
	} {
		yaml, err := debezium.Import([]debezium.File{{Name: "f", Data: []byte(server + query + "\n")}}, environment(), nil, bytea)
		if got := string(yaml) + fmt.Sprint(err); !strings.Contains(got, want) || err == nil && !has(got, `- name: "inventory.outboxevent"`) {
			t.Errorf("%s: no %q in\n%s", query, want, got)
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
