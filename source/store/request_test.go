package store_test

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
)

// An id or a group that the relay's tables cannot hold is refused before anything is asked of the database: a request
// that it refuses would be tried for ever.
func TestValidateWhatCannotBeStored(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", outbox.MaxIndexed+1)
	edit := func(id string) *checkpoint.Request {
		return &checkpoint.Request{Verb: checkpoint.VerbEdit, Selection: checkpoint.Selection{IDs: []string{"a"}, Edit: &checkpoint.Edit{NewID: id}}}
	}
	hold := func(group string) *checkpoint.Request {
		return &checkpoint.Request{Verb: checkpoint.VerbHold, Selection: checkpoint.Selection{Groups: []string{group}}}
	}
	for name, c := range map[string]struct {
		request *checkpoint.Request
		want    string
	}{
		"no new id":                 {edit(""), ""},
		"a new id":                  {edit(long[1:]), ""},
		"a long id":                 {edit(long), "at most 1024 bytes (this has 1025)"},
		"a NUL":                     {edit("a\x00b"), "without NUL"},
		"not UTF-8":                 {edit("a\xff"), "UTF-8"},
		"a stand-in":                {edit(outbox.StandInID("1")), "stands in"},
		"a group":                   {hold(long[1:]), ""},
		"a group by its whole text": {hold(long), "write \"" + outbox.StandInGroup(long)},
	} {
		err := store.Validate(c.request)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
