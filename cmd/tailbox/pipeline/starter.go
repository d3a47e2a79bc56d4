package pipeline

import (
	"embed"
	"regexp"
	"strings"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/source/mysql/server"
)

//go:embed starter
var starters embed.FS

// sourceKinds lists the kinds of databases.
func sourceKinds() []string {
	return []string{"postgres", server.KindMySQL, server.KindMariaDB, "mongodb"}
}

// StarterKinds lists the kinds of databases and of sinks that there is a starter for.
func StarterKinds() (sources, sinks []string) {
	sinks, _ = kindNames()
	return sourceKinds(), sinks
}

// Starter returns a first configuration, with comments. Both kinds are among StarterKinds.
func Starter(source, sink string) (string, error) {
	from := source
	if source == server.KindMariaDB {
		from = server.KindMySQL
	}
	var b strings.Builder
	for _, name := range []string{"head", "source-" + from, "sink-" + sink, "tail"} {
		text, err := starters.ReadFile("starter/" + name + ".yaml")
		if err != nil {
			return "", cli.WrongUsage("there is no starter for %s and %s", source, sink)
		}
		b.Write(text)
	}
	return strings.NewReplacer("kind: KIND", "kind: "+source, "[SINK]", "["+sink+"]").Replace(b.String()), nil
}

// needed matches a variable of the environment without a default.
var needed = regexp.MustCompile(`\$\{([A-Z0-9_]+)\}`)

// StarterNeeds lists the variables of the environment that a starter needs.
func StarterNeeds(text string) (names []string) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			for _, m := range needed.FindAllStringSubmatch(line, -1) {
				names = append(names, m[1])
			}
		}
	}
	return names
}
