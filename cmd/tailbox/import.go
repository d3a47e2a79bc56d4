package main

import (
	"context"
	"fmt"
	"os"

	"github.com/tailbox/tailbox/internal/debezium"
)

// What -c holds where --debezium is given: the names of Debezium's files, each behind a separator.
const (
	debeziumFiles = "debezium\x00"
	fileSeparator = "\x00"
)

func newImport() *command {
	return &command{
		name: "import", about: "prints the tailbox.yaml that does what another relay's configuration does",
		sub: []*command{newImportDebezium()},
	}
}

func newImportDebezium() *command {
	return &command{
		name: "debezium", args: "FILE…", about: "reads Debezium Server's properties, or a connector of Kafka Connect",
		long: "Each option is commented with where it came from. What has no effect on an outbox is listed at the end; what would change the\n" +
			"messages and cannot be kept is an error. Name the properties of Kafka Connect's worker too, for its brokers and converters.",
		example: "tailbox import debezium application.properties > tailbox.yaml\ntailbox import debezium connect-distributed.properties outbox-connector.json > tailbox.yaml",
		run: func(_ context.Context, sh *shell, args []string) error {
			if len(args) == 0 {
				return wrongUsage("import debezium: name Debezium's configuration, such as application.properties")
			}
			yaml, err := importDebezium(sh, args)
			if err != nil {
				return err
			}
			_, err = sh.out.Write(yaml)
			return err
		},
	}
}

// importDebezium makes a configuration of Debezium's files.
func importDebezium(sh *shell, names []string) ([]byte, error) {
	files := make([]debezium.File, len(names))
	for i, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, &usageError{fmt.Errorf("read Debezium's configuration: %w", err)}
		}
		files[i] = debezium.File{Name: name, Data: data}
	}
	yaml, err := debezium.Import(files, sh.env)
	if err != nil {
		return nil, &usageError{fmt.Errorf("import Debezium's configuration: %w", err)}
	}
	return yaml, nil
}
