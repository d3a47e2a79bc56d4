package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/internal/debezium"
	"github.com/tailbox/tailbox/source"
	mysqlsetup "github.com/tailbox/tailbox/source/mysql/setup"
	"github.com/tailbox/tailbox/source/postgres/setup"
)

// describeTimeout bounds asking the database for the columns of a table.
const describeTimeout = 10 * time.Second

// What -c holds where --debezium is given: the names of Debezium's files, each behind a separator.
const (
	debeziumFiles = "debezium\x00"
	fileSeparator = "\x00"
)

// ImportDebezium makes a configuration of Debezium's files.
func ImportDebezium(ctx context.Context, sh *cli.Shell, names []string) ([]byte, error) {
	files, err := readDebezium(names)
	if err != nil {
		return nil, err
	}
	var unreachable error
	yaml, err := debezium.Import(files, sh.Env, sh.Variables, describer(ctx, sh, &unreachable), checked(sh))
	if unreachable != nil && err != nil { // no fault of the configuration: whoever supervises the relay may start it again
		return nil, fmt.Errorf("import Debezium's configuration: %w", err)
	}
	if err != nil {
		return nil, cli.WrongUsage("import Debezium's configuration: %w", err)
	}
	return yaml, nil
}

// ReportDebezium tells what becomes of the options of Debezium's files.
func ReportDebezium(ctx context.Context, sh *cli.Shell, names []string) ([]debezium.Option, error) {
	files, err := readDebezium(names)
	if err != nil {
		return nil, err
	}
	var unreachable error // it is the reason of a refusal as well
	return debezium.Report(files, sh.Env, sh.Variables, describer(ctx, sh, &unreachable), checked(sh)), nil
}

// checked finds what tailbox check --offline would refuse in a result. A variable or a file that this machine lacks may be on the one that the relay runs on.
func checked(sh *cli.Shell) debezium.Check {
	return func(yaml []byte) (faults []debezium.Fault) {
		c, file, err := config.Read("imported tailbox.yaml", yaml, func(name string) (string, bool) {
			value, set := sh.Env(name)
			if !set {
				value = "1"
			}
			return value, true
		})
		if err == nil {
			_, err = pipelineOf(c, file, io.Discard)
		}
		wrong, ok := errors.AsType[*config.Error](err)
		if !ok && err != nil {
			return []debezium.Fault{{Key: "a file", Reason: err.Error()}}
		}
		for i := 0; ok && i < len(wrong.Problems); i++ {
			if p := wrong.Problems[i]; !strings.Contains(p.Reason, syscall.ENOENT.Error()) {
				faults = append(faults, debezium.Fault{Line: p.Line, Key: p.Path, Reason: p.Reason})
			}
		}
		return faults
	}
}

func readDebezium(names []string) ([]debezium.File, error) {
	files := make([]debezium.File, len(names))
	for i, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, cli.WrongUsage("read Debezium's configuration: %w", err)
		}
		files[i] = debezium.File{Name: name, Data: data}
	}
	return files, nil
}

// describer asks the database for the columns of tables. It sets unreachable to why that could not be asked.
func describer(ctx context.Context, sh *cli.Shell, unreachable *error) debezium.Describe {
	return func(kind, address, table string) (map[string]string, error) {
		url, err := addressOf(sh, kind, address)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, describeTimeout)
		defer cancel()
		var schemas map[string]string
		if kind == "postgres" {
			schemas, err = setup.ConnectSchemas(ctx, url, table)
		} else {
			schemas, err = mysqlsetup.ConnectSchemas(ctx, kind, url, table)
		}
		if err != nil && !errors.Is(err, source.ErrStop) {
			*unreachable = err
		}
		return schemas, err
	}
}

// addressOf reads an address as source.url is read.
func addressOf(sh *cli.Shell, kind, address string) (string, error) {
	if unset := config.Unset(address, sh.Env); len(unset) > 0 {
		return "", fmt.Errorf("the import cannot ask the database, because these environment variables are not set: %s", strings.Join(unset, ", "))
	}
	file, err := config.Parse("source.url", []byte("url: "+address), sh.Env)
	if err != nil {
		return "", err
	}
	url := file.Top().SourceURL(kind)
	return url, file.Err()
}
