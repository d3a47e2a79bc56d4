package main

import (
	"context"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
)

func newImport() *cli.Command {
	return &cli.Command{
		Name: "import", About: "prints the tailbox.yaml that does what another relay's configuration does",
		Sub: []*cli.Command{newImportDebezium()},
	}
}

func newImportDebezium() *cli.Command {
	return &cli.Command{
		Name: "debezium", Args: "FILE…", About: "reads Debezium Server's properties, or a connector of Kafka Connect",
		Long: "Each option is commented with where it came from. What has no effect on an outbox is listed at the end; what would change the\n" +
			"messages and cannot be kept is an error. Where schemas are sent around keys, values or headers, as Debezium Server does by default, the\n" +
			"database is asked for the table's columns. Name the properties of Kafka Connect's worker too, for its brokers and converters.",
		Example: "tailbox import debezium application.properties > tailbox.yaml\ntailbox import debezium connect-distributed.properties outbox-connector.json > tailbox.yaml",
		Run: func(ctx context.Context, sh *cli.Shell, args []string) error {
			if len(args) == 0 {
				return cli.WrongUsage("import debezium: name Debezium's configuration, such as application.properties")
			}
			yaml, err := pipeline.ImportDebezium(ctx, sh, args)
			if err != nil {
				return err
			}
			_, err = sh.Out.Write(yaml)
			return err
		},
	}
}
