package main

import (
	"context"
	"errors"
	"flag"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
	"github.com/tailbox/tailbox/internal/debezium"
)

func newImport() *cli.Command {
	return &cli.Command{
		Name: "import", About: "prints the tailbox.yaml that does what another relay's configuration does",
		Sub: []*cli.Command{newImportDebezium()},
	}
}

func newImportDebezium() *cli.Command {
	var report bool
	return &cli.Command{
		Name: "debezium", Args: "FILE…", About: "reads a configuration of Debezium Server, or of a connector of Kafka Connect",
		Long: "Each option is commented with where it came from. What has no effect on an outbox is listed at the end; what would change the\n" +
			"messages and cannot be kept is an error. Where schemas are sent around keys, values or headers, as Debezium Server does by default, the\n" +
			"database is asked for the table's columns. Name the file of Kafka Connect's worker too, for its brokers and converters. It reads properties, JSON,\n" +
			"YAML, resources of Kubernetes, compose and .env files, and scripts that send a connector.",
		Example: "tailbox import debezium application.properties > tailbox.yaml\ntailbox import debezium connect-distributed.properties outbox-connector.json > tailbox.yaml\n" +
			"tailbox import debezium --report outbox-connector.json",
		Flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&report, "report", false, "print what becomes of each option instead: kept, no effect and why, or refused and why")
		},
		Run: func(ctx context.Context, sh *cli.Shell, args []string) error {
			if len(args) == 0 {
				return cli.WrongUsage("import debezium: name Debezium's configuration, such as application.properties")
			}
			if report {
				return reportDebezium(ctx, sh, args)
			}
			yaml, err := pipeline.ImportDebezium(ctx, sh, args)
			if _, wrong := errors.AsType[debezium.Problems](err); wrong {
				return cli.WrongUsage("%w", err)
			}
			if err != nil {
				return err
			}
			_, err = sh.Out.Write(yaml)
			return err
		},
	}
}

// reportDebezium prints what becomes of each option. It fails if one is refused.
func reportDebezium(ctx context.Context, sh *cli.Shell, names []string) error {
	options, err := pipeline.ReportDebezium(ctx, sh, names)
	if err != nil {
		return err
	}
	rows := [][]string{{"OPTION", "", "AS, OR WHY"}}
	refused := 0
	for _, o := range options {
		rows = append(rows, []string{cli.Cell(o.Key, 0), string(o.Fate), cli.Cell(o.How, 0)})
		if o.Fate == debezium.Refused {
			refused++
		}
	}
	if err := cli.Table(sh.Out, rows); err != nil || refused == 0 {
		return err
	}
	return cli.WrongUsage("import debezium: %s refused", cli.Count(refused, "option is", "options are"))
}
