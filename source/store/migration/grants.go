package migration

import "strings"

// GrantsComment is what stands before the script of `tailbox init --print`, as comments of the language: the statements that grant the relay, and clients
// that ask for verbs, what they need.
func GrantsComment(mark, relay, clients string) string {
	var b strings.Builder
	add := func(head, script string) {
		if script == "" {
			return
		}
		b.WriteString(mark + " " + head + "\n")
		for line := range strings.Lines(script) {
			b.WriteString(strings.TrimRight(mark+"   "+strings.TrimRight(line, "\n;"), " ") + "\n")
		}
	}
	add("Run this as the owner of the tables. Who runs the relay, here tailbox, needs no more than:", relay)
	add("Who asks for verbs in SQL, here support, needs no more than:", clients)
	return b.String() + "\n"
}
