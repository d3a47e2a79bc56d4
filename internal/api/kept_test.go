package api

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestKept: an answer is kept for a multiple of the time that it took, and by all who ask; none is kept after something was changed, nor is a failure.
func TestKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, k := &server{}, newKept[int](func(took time.Duration) time.Duration { return 10 * took })
		asked := 0
		takes := 500 * time.Millisecond
		ask := func() (int, error) {
			return askOnce(t.Context(), s, k, "q", func(context.Context) (int, error) {
				<-time.After(takes)
				asked++
				return asked, nil
			})
		}
		want := func(what string, want int) {
			t.Helper()
			if got, err := ask(); got != want || err != nil || asked != want {
				t.Errorf("%s: answer %d of %d, %v, want answer %d", what, got, asked, err, want)
			}
		}
		want("first", 1)
		for range 3 {
			<-time.After(time.Second)
			want("young", 1)
		}
		<-time.After(2 * time.Second)
		go func() { _, _ = ask() }()
		synctest.Wait()
		want("two at once", 2)
		k.refresh(time.Now())
		want("after a change", 3)
		want("after a change, again", 4)
		<-time.After(keptMost)
		takes = 4 * time.Second
		want("later", 5)
		<-time.After(keptMost - takes - time.Millisecond)
		want("the longest", 5)
		<-time.After(time.Millisecond)
		want("older", 6)
		if _, err := askOnce(t.Context(), s, k, "other", func(context.Context) (int, error) { return 0, errBusy() }); err == nil {
			t.Errorf("a failure: %v", err)
		}
		if _, ok := k.young("other", time.Now()); ok {
			t.Error("a failure is kept")
		}
	})
}
