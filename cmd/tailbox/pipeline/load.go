package pipeline

import (
	"context"
	"flag"
	"io"
	"os"
	"strings"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/relay"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/postgres/session"
)

// Where the configuration is looked for.
const (
	configEnv    = "TAILBOX_CONFIG"
	configLocal  = "tailbox.yaml"
	configSystem = "/etc/tailbox/tailbox.yaml"
)

// findConfig returns the file that -c names, or the first that is there.
func findConfig(sh *cli.Shell, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	if name, ok := sh.Env(configEnv); ok && name != "" {
		return name, nil
	}
	for _, name := range []string{configLocal, configSystem} {
		if _, err := os.Stat(name); err == nil {
			return name, nil
		}
	}
	return "", cli.WrongUsage("find configuration: there is no ./%s and no %s: name one with -c FILE or $%s", configLocal, configSystem, configEnv)
}

// Load reads the configuration, sinks included. Its errors are told all at once.
func Load(ctx context.Context, sh *cli.Shell, named string) (*Pipeline, error) {
	c, file, err := read(ctx, sh, named)
	if err != nil {
		return nil, err
	}
	return pipelineOf(c, file, sh.Messages())
}

// pipelineOf reads the rest of a file. out is where the kind stdout writes.
func pipelineOf(c *config.Config, file *config.File, out io.Writer) (*Pipeline, error) {
	p := &Pipeline{Config: c, file: file, out: out}
	p.readSinks(out)
	p.readURLs(file)
	p.checkAlerts(file)
	if n := len(c.Sinks); n > 0 { // without any, the configuration has said so
		if err := relay.CountSinks(n); err != nil {
			file.Add([]string{"sinks"}, "", strings.TrimPrefix(err.Error(), "relay: "))
		}
	}
	if err := file.Err(); err != nil {
		return nil, err
	}
	p.Hide = file.Hide()
	var err error
	p.Effective, err = file.Effective()
	return p, err
}

// Again makes the pipeline of the same text, with the secrets that the files which it names hold now. It is nil if they hold the same ones. The URLs of the
// source stay: a running relay cannot take over others, and those of the sinks should not have to wait for its next start.
func (p *Pipeline) Again() (*Pipeline, error) {
	c, file, err := p.file.Again()
	if err != nil {
		return nil, err
	}
	next, err := pipelineOf(c, file, p.out)
	if err != nil || p.file.SameSecrets(file) {
		return nil, err
	}
	next.Config.Source.URL, next.Config.Source.LockURL = p.Config.Source.URL, p.Config.Source.LockURL
	return next, nil
}

// Changed returns the keys by which the texts of two pipelines differ.
func (p *Pipeline) Changed(next *Pipeline) []string { return p.file.Changed(next.file) }

// read reads the file that -c names, or what Debezium's files say.
func read(ctx context.Context, sh *cli.Shell, named string) (*config.Config, *config.File, error) {
	if names, ok := strings.CutPrefix(named, debeziumFiles); ok {
		yaml, err := ImportDebezium(ctx, sh, strings.Split(names, fileSeparator)[1:])
		if err != nil {
			return nil, nil, err
		}
		c, file, err := config.Read("imported tailbox.yaml", yaml, sh.Env)
		if err != nil {
			return nil, nil, cli.WrongUsage("%w", err)
		}
		return c, file, nil
	}
	name, err := findConfig(sh, named)
	if err != nil {
		return nil, nil, err
	}
	c, file, err := config.Load(name, sh.Env)
	if err != nil {
		return nil, nil, cli.WrongUsage("%w", err)
	}
	return c, file, nil
}

// readURLs tells what is wrong with the database's addresses. They may hold passwords, so they are not shown.
func (p *Pipeline) readURLs(file *config.File) {
	valid := session.ValidURL
	switch p.Config.Source.Kind {
	case "mongodb":
		valid = func(url string) error { return conn.ValidURL(url, p.Config.Source.Schema) }
	case server.KindMySQL, server.KindMariaDB:
		valid = server.ValidURL
	}
	for key, url := range map[string]string{"url": p.Config.Source.URL, "lock_url": p.Config.Source.LockURL} {
		if url == "" {
			continue
		}
		err := config.UserInfo(url)
		if err == nil {
			err = valid(url)
		}
		if err != nil {
			file.Add([]string{"source", key}, "", err.Error())
		}
	}
}

// ConfigFlag adds -c and --debezium.
func ConfigFlag(fs *flag.FlagSet, file *string) {
	fs.StringVar(file, "c", "", "configuration `FILE` (default $TAILBOX_CONFIG, ./tailbox.yaml, /etc/tailbox/tailbox.yaml)")
	fs.Func("debezium", "Debezium's configuration `FILE` in place of -c; may be given more than once", func(name string) error {
		if !strings.HasPrefix(*file, debeziumFiles) {
			*file = debeziumFiles
		}
		*file += fileSeparator + name
		return nil
	})
}
