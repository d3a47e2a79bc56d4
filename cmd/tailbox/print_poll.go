package main

import (
	"fmt"
	"strings"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/poll"
	"github.com/tailbox/tailbox/source/store"
)

// pollLines tell how far polling is; resume is the checkpoint's.
func pollLines(p *store.PollReport, resume string) [][]string {
	if p == nil {
		return [][]string{{"polling", "its sequence cannot be read: tailbox check says why"}}
	}
	text := fmt.Sprintf("%s is at %d", p.Sequence, p.Last)
	if at, _, err := poll.ParseResume(source.Resume(resume)); err == nil && at < p.Last {
		text += fmt.Sprintf(", %d numbers after the checkpoint", p.Last-at)
	}
	lines := [][]string{{"polling", text}}
	if len(p.Open) > 0 {
		const most = 5
		more := ""
		if n := len(p.Open) - most; n > 0 {
			more = fmt.Sprintf(", and %d more", n)
		}
		lines = append(lines, []string{"open", "what comes after their numbers waits for " + strings.Join(p.Open[:min(most, len(p.Open))], ", ") + more})
	}
	return lines
}
