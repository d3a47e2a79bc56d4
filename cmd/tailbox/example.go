package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/source/store/operate"
)

// checkExamples shows for each table what becomes of a message on its way to the sinks: one that is there, or else one that is made up. Of what may be
// somebody's data only sizes and names are shown.
func checkExamples(ctx context.Context, p *pipeline.Pipeline, db operate.Database) (found []check.Finding) {
	for i := range p.Config.Source.Tables {
		t := &p.Config.Source.Tables[i]
		m, err := db.Example(ctx, t)
		if err != nil {
			continue // what is wrong with the table, the database's own check tells
		}
		if m != nil && m.Fault != nil {
			if p.Config.Source.Kind == "mongodb" {
				continue // its own check tells, which has nothing but documents to look at
			}
			found = append(found, check.Finding{Level: check.Warning, What: fmt.Sprintf("a row of table %s cannot be delivered: %s", configuredName(t), m.Fault.Reason),
				Fix: "correct columns under source.tables; if the row is pending, tailbox makes a dead letter of it"})
			continue
		}
		from, there := "a row that is there", true
		if m == nil {
			m, from, there = madeUp(t), "made up", false
		}
		if m.Table == "" || !p.Config.Router.Knows(m.Table) {
			m.Table = configuredName(t)
		}
		what := fmt.Sprintf("an example of table %s (%s): type %q", configuredName(t), from, outbox.Shorten(m.Type))
		var d sink.Delivery
		route, err := p.Config.Router.Route(m, &d)
		if err != nil {
			if there {
				found = append(found, check.Finding{Level: check.Warning, What: what + ", which cannot be routed: " + err.Error(),
					Fix: "correct the table's columns, router, or routes; if the row is pending, tailbox makes a dead letter of it"})
			} else {
				found = append(found, check.Finding{Level: check.Info, What: what + ". Topic and route depend on the values of the row"})
			}
			continue
		}
		var headers []string
		for _, h := range d.Headers {
			headers = append(headers, fmt.Sprintf("%q", outbox.Shorten(h.Name)))
		}
		if column := t.Columns.Topic; !there && column != "" && m.Topic == "" && (d.Topic == "" || ownTopic(t)) {
			what += ", a topic from column " + column
		} else {
			what += fmt.Sprintf(" becomes topic %q", outbox.Shorten(d.Topic))
		}
		if there {
			what += fmt.Sprintf(", a key of %d bytes, a payload of %d bytes", len(d.Key), len(d.Value))
		}
		if len(headers) > 0 {
			what += ", headers " + strings.Join(headers, " ")
		}
		if there && m.Group == "" {
			what += ", no group"
		}
		found = append(found, check.Finding{Level: check.Info, What: what + ", to " + strings.Join(route.To, ", ")})
	}
	return found
}

// ownTopic reports whether the configuration names the topic's column. The table may lack the column that the shape names.
func ownTopic(t *outbox.Table) bool {
	shape, _ := outbox.ShapeNamed(t.Shape)
	return t.Columns.Topic != shape.Columns.Topic
}

// headerInTopic finds the headers that a topic is made of.
var headerInTopic = regexp.MustCompile(`\$\{header\.([^}]+)\}`)

// madeUp is a message as an application might write it, as far as topic, headers and partition are made of it: which columns the table has, only a row
// tells. Columns that the router cannot do without have a value that can be a partition, too.
func madeUp(t *outbox.Table) *outbox.Message {
	const value = "1"
	m := &outbox.Message{ID: value, Group: value, Key: []byte(value), Tenant: value, Payload: []byte("{}")}
	if len(t.Tenants) > 0 {
		m.Tenant = t.Tenants[0]
	}
	if t.Columns.Type != "" || t.Reference("type") != nil {
		m.Type = "OrderPlaced"
	}
	if t.Shape == "debezium" || t.Reference("topic") != nil {
		m.Topic = "order"
	}
	for _, name := range headerInTopic.FindAllStringSubmatch(t.Topic, -1) {
		m.Headers = append(m.Headers, outbox.Header{Name: name[1], Value: []byte(name[1])})
	}
	for _, name := range t.Fields {
		if !slices.Contains(t.Optional, name) {
			m.Fields = append(m.Fields, outbox.Field{Name: name, Value: []byte(value)})
		}
	}
	return m
}
