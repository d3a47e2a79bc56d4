package admin

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailbox/tailbox/internal/history"
	"github.com/tailbox/tailbox/relay"
)

func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := NewMetrics(prometheus.NewRegistry(), Labels{Pipeline: "shop", Sinks: []string{"api", "mail"}, Routes: []RouteLabels{{"r", []string{"api", "mail"}}}})
		if err != nil {
			t.Fatal(err)
		}
		ev := m.Events()
		ev.Received(7, 0, 0) // before the history begins: no point counts it
		h := history.New(m.Totals)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { h.Run(ctx); close(ended) }()
		begin := time.Now()
		ev.Received(5, 0, 3*time.Second)
		ev.Delivered("api", "r", 2, time.Millisecond)
		ev.Delivered("mail", "r", 1, time.Millisecond)
		ev.Answered("api", "", 2)
		ev.Answered("mail", "", 1)
		ev.Answered("api", relay.Classes()[0], 4)
		ev.Dead("mail", "r", "permanent", 1)
		<-time.After(history.Every + time.Second)
		ev.Received(1, 0, 0)
		<-time.After(history.Every)
		got := h.Since(begin)
		want := []history.Point{{At: begin.Add(history.Every), Received: 5, Delivered: 3, Failed: 4, Dead: 1, LagSeconds: 3}, {At: begin.Add(2 * history.Every), Received: 1}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("points:\n%+v\nwant\n%+v", got, want)
		}
		if later := h.Since(begin.Add(history.Every)); len(later) != 1 || later[0].Received != 1 {
			t.Errorf("points after the first: %+v", later)
		}
		<-time.After(2 * time.Hour)
		if all := h.Since(begin); len(all) != 720 || all[0].Received != 0 || all[0].At != all[1].At.Add(-history.Every) {
			t.Errorf("%d points, the first %+v", len(all), all[0])
		}
		end()
		<-ended
	})
}
