package propose

import (
	"slices"
	"strings"

	"github.com/tailbox/tailbox/source/store/report"
)

// A library is one whose table people have.
type library struct {
	// page is that of docs/coming-from about it; "" if the library sends the messages itself, so that nobody can take over its table.
	name, page string
	// columns are those that together tell the table from others, written as names of roles are.
	columns string
}

func libraries() []library {
	return []library{
		{"Brighter", "brighter", "messageid messagetype headerbag dispatched"},
		{"CAP", "cap", "statusname retries expiresat content version"},
		{"django-outbox-pattern", "django-outbox-pattern", "destination body headers retry expiresat"},
		{"Eventuate Tram", "eventuate-tram", "destination headers payload published creationtime"},
		{"gruelbox' transaction-outbox", "gruelbox", "uniquerequestid invocation nextattempttime processed blocked"},
		{"NServiceBus", "", "messageid dispatched dispatchedat operations persistenceversion"},
		{"MassTransit", "masstransit", "outboxid inboxmessageid enqueuetime destinationaddress sequencenumber"},
		{"pg-transactional-outbox", "pg-transactional-outbox", "segment lockeduntil startedattempts finishedattempts abandonedat"},
		{"Rebus", "rebus", "correlationid destinationaddress headers body sent"},
		{"River", "river", "kind maxattempts finalizedat attemptedby uniquekey"},
		{"Spring Modulith", "spring-modulith", "listenerid serializedevent publicationdate completiondate"},
		{"Symfony Messenger", "symfony-messenger", "queuename body headers availableat deliveredat"},
		{"Watermill", "watermill", "uuid offset payload metadata transactionid"},
		{"Watermill's queue", "watermill", "uuid offset payload metadata acked"},
		{"Wolverine", "wolverine", "ownerid destination deliverby body messagetype"},
	}
}

// libraryOf is the library that seems to have made a table; nil if none is known.
func libraryOf(t *report.Table) *library {
	for _, l := range libraries() {
		if !slices.ContainsFunc(strings.Fields(l.columns), func(name string) bool {
			return !slices.ContainsFunc(t.Columns, func(c report.Column) bool { return plain(c.Name) == name })
		}) {
			return &l
		}
	}
	return nil
}
