package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/internal/debezium"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres"
)

// describeTimeout bounds asking the database for the columns of a table.
const describeTimeout = 10 * time.Second

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
			"messages and cannot be kept is an error. Where schemas are sent around keys, values or headers, as Debezium Server does by default, the\n" +
			"database is asked for the table's columns. Name the properties of Kafka Connect's worker too, for its brokers and converters.",
		example: "tailbox import debezium application.properties > tailbox.yaml\ntailbox import debezium connect-distributed.properties outbox-connector.json > tailbox.yaml",
		run: func(ctx context.Context, sh *shell, args []string) error {
			if len(args) == 0 {
				return wrongUsage("import debezium: name Debezium's configuration, such as application.properties")
			}
			yaml, err := importDebezium(ctx, sh, args)
			if err != nil {
				return err
			}
			_, err = sh.out.Write(yaml)
			return err
		},
	}
}

// importDebezium makes a configuration of Debezium's files.
func importDebezium(ctx context.Context, sh *shell, names []string) ([]byte, error) {
	files := make([]debezium.File, len(names))
	for i, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, &usageError{fmt.Errorf("read Debezium's configuration: %w", err)}
		}
		files[i] = debezium.File{Name: name, Data: data}
	}
	var unreachable error
	yaml, err := debezium.Import(files, sh.env, sh.variables, func(address, table string) (map[string]string, error) {
		file, err := config.Parse("source.url", []byte("url: "+address), sh.env)
		if err != nil {
			return nil, err
		}
		url := file.Top().Address("url")
		if err := file.Err(); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, describeTimeout)
		defer cancel()
		schemas, err := postgres.ConnectSchemas(ctx, url, table)
		if err != nil && !errors.Is(err, source.ErrStop) {
			unreachable = err
		}
		return schemas, err
	})
	if unreachable != nil { // no fault of the configuration: whoever supervises the relay may start it again
		return nil, fmt.Errorf("import Debezium's configuration: %w", unreachable)
	}
	if err != nil {
		return nil, &usageError{fmt.Errorf("import Debezium's configuration: %w", err)}
	}
	return yaml, nil
}
