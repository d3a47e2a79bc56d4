package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/internal/propose"
	"github.com/tailbox/tailbox/relay"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/source/store/operate"
)

func newInit() *cli.Command {
	var file, shape, kind, from string
	var print, tables bool
	return &cli.Command{
		Name: "init", About: "creates what is missing: tables, publication, slot and the first checkpoint",
		Long: "It can be run again at any time. With --print it only prints the SQL, for a migration tool; slot and checkpoint are then\n" +
			"made by tailbox init after the migration. What is committed after the first checkpoint is delivered, whenever run starts;\n" +
			"rows that were there before are judged by their status column, or by source.start.\n" +
			"With --shape and --print it prints the tables of a shape, and needs no configuration.\n" +
			"With --from-table it changes nothing: it looks at an outbox table that is there, and prints how to configure it, why, and what\n" +
			"you have to answer. Of the configuration it looks at the source alone.",
		Example: "tailbox init -c tailbox.yaml\ntailbox init --print > migrations/0042_tailbox.sql\ntailbox init --shape flowcatalyst --kind mysql --print\ntailbox init --from-table billing.queue",
		Flags: func(fs *flag.FlagSet) {
			pipeline.ConfigFlag(fs, &file)
			fs.BoolVar(&print, "print", false, "print the SQL and do nothing")
			fs.BoolVar(&tables, "create-table", false, "create an outbox table also if another one has nearly its name, or if its columns have names of their own")
			fs.StringVar(&shape, "shape", "", "with --print: print the outbox tables of this `SHAPE` alone")
			fs.StringVar(&from, "from-table", "", "print the configuration of the table `NAME`, and do nothing")
			fs.StringVar(&kind, "kind", "postgres", "with --shape: the `KIND` of database, as source.kind")
		},
		Run: func(ctx context.Context, sh *cli.Shell, _ []string) error {
			if shape != "" {
				if !print {
					return cli.WrongUsage("init: --shape prints the tables of a shape: add --print; to create them, name the shape in source.tables")
				}
				return printShape(sh, shape, kind)
			}
			p, err := pipeline.Load(ctx, sh, file)
			if err != nil {
				return err
			}
			if from != "" {
				return proposeFor(ctx, sh, p, from)
			}
			p.CreateTables = tables
			db := p.Database(sh.Log(), nil)
			if print {
				script, err := db.SetupScript()
				if err != nil {
					return err
				}
				_, err = fmt.Fprint(sh.Out, script)
				return err
			}
			done, err := db.Init(ctx)
			if err != nil {
				return err
			}
			for _, what := range done {
				fmt.Fprintln(sh.Out, what)
			}
			if err := firstCheckpoint(ctx, sh, db); err != nil {
				return err
			}
			return warn(ctx, sh, db)
		},
	}
}

// proposeFor prints how a table that is there could be configured.
func proposeFor(ctx context.Context, sh *cli.Shell, p *pipeline.Pipeline, name string) error {
	schema, table, err := config.SplitTable(name)
	if err != nil {
		return cli.WrongUsage("init: --from-table %s: %v", name, err)
	}
	found, err := p.Database(sh.Log(), nil).Describe(ctx, schema, table)
	if err != nil {
		return err
	}
	_, err = io.WriteString(sh.Out, propose.Of(found).YAML())
	return err
}

// printShape prints how the tables of a shape are made.
func printShape(sh *cli.Shell, shape, kind string) error {
	tables, err := config.ShapeTables(shape, kind)
	if err != nil {
		return cli.WrongUsage("init --shape: %v", err)
	}
	for i := range tables {
		text, err := pipeline.TableScript(kind, &tables[i])
		if wrong, ok := errors.AsType[*cli.UsageError](err); ok {
			return wrong
		}
		if err != nil {
			return cli.WrongUsage("init --shape: %v", err)
		}
		if i > 0 {
			text = "\n" + text
		}
		if _, err := fmt.Fprint(sh.Out, text); err != nil {
			return err
		}
	}
	return nil
}

// warn tells what is not as it should be, though all is created: a newcomer may not know of tailbox check.
func warn(ctx context.Context, sh *cli.Shell, db operate.Database) error {
	findings, err := db.Check(ctx)
	if err != nil {
		return nil // what was asked for is done, and check tells
	}
	findings = slices.DeleteFunc(findings, func(f check.Finding) bool { return f.Level == check.Info })
	if len(findings) == 0 {
		return nil
	}
	_, err = io.WriteString(sh.Err, findingsText(new(cli.Shell).Paint, findings))
	return err
}

// firstCheckpoint makes slot and checkpoint where there is no checkpoint yet.
func firstCheckpoint(ctx context.Context, sh *cli.Shell, db operate.Database) (err error) {
	// A look, before the store is opened: a start that finds a checkpoint would be counted, and what earlier ones wrote down lost.
	gap, err := db.Gap(ctx)
	switch {
	case errors.Is(err, operate.ErrNoCheckpoint):
	case err != nil:
		return err
	case gap != nil && !gap.Unswept:
		fmt.Fprintf(sh.Out, "the checkpoint is there already, but the log cannot be read on from it: %s: tailbox check says what comes of it\n", gap.Why)
		return nil
	default:
		fmt.Fprintln(sh.Out, "the checkpoint is there already")
		return nil
	}
	store, err := db.Open(ctx)
	if errors.Is(err, checkpoint.ErrLocked) {
		fmt.Fprintln(sh.Out, "a relay is running, so there is a checkpoint already")
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close(context.WithoutCancel(ctx))) }()
	loaded, err := store.Load(ctx)
	if err != nil {
		return err
	}
	if loaded.Checkpoint != nil { // made since
		fmt.Fprintln(sh.Out, "the checkpoint is there already")
		return nil
	}
	position, err := relay.Establish(ctx, db.Source(), store, loaded, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if position.Snapshot != nil {
		if err := position.Snapshot.Close(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(sh.Out, "created %sthe first checkpoint: %s\n", db.FirstMade(), position.Checkpoint.Resume)
	if position.Checkpoint.SweepPending {
		fmt.Fprintln(sh.Out, "there are pending rows: tailbox run begins with them")
	}
	return nil
}
