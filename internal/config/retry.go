package config

import (
	"slices"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
)

// shapeRetry is the retry that applications with a table of the shape are used to; ok is false where it is ours.
func shapeRetry(shape string) (r router.Retry, ok bool) {
	r = router.DefaultRetry()
	switch shape {
	case "yantra": // 2 m, 4 m, 8 m, and so on where a message has more attempts
		return router.Retry{Attempts: 4, Initial: 2 * time.Minute, Factor: 2, Max: time.Hour, Jitter: "none"}, true
	case "gopipe":
		return router.Retry{Attempts: 10, Initial: time.Second, Factor: 2, Max: time.Minute, Jitter: "full"}, true
	case "flowcatalyst": // three retries
		r.Attempts = 4
		return r, true
	case "memo":
		r.Attempts = 5
		return r, true
	}
	return r, false
}

// baseRetry is what the file's retry is laid over: that of the shape of all tables, if it is one.
func baseRetry(tables []outbox.Table) router.Retry {
	if len(tables) == 0 || severalShapes(tables) {
		return router.DefaultRetry()
	}
	r, _ := shapeRetry(tables[0].Shape)
	return r
}

func severalShapes(tables []outbox.Table) bool {
	return slices.ContainsFunc(tables, func(t outbox.Table) bool { return t.Shape != tables[0].Shape })
}

// tableRetry is the retry of each table whose shape has one, for pipelines whose file sets none.
func tableRetry(tables []outbox.Table) []*router.Retry {
	list := make([]*router.Retry, len(tables))
	for i := range tables {
		if r, ok := shapeRetry(tables[i].Shape); ok {
			list[i] = &r
		}
	}
	return list
}
