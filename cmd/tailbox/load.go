package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/source/mongo"
	"github.com/tailbox/tailbox/source/mysql"
	"github.com/tailbox/tailbox/source/postgres"
)

// Where the configuration is looked for.
const (
	configEnv    = "TAILBOX_CONFIG"
	configLocal  = "tailbox.yaml"
	configSystem = "/etc/tailbox/tailbox.yaml"
)

// findConfig returns the file that -c names, or the first that is there.
func findConfig(sh *shell, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	if name, ok := sh.env(configEnv); ok && name != "" {
		return name, nil
	}
	for _, name := range []string{configLocal, configSystem} {
		if _, err := os.Stat(name); err == nil {
			return name, nil
		}
	}
	return "", wrongUsage("find configuration: there is no ./%s and no %s: name one with -c FILE or $%s", configLocal, configSystem, configEnv)
}

// load reads the configuration, sinks included. Its errors are told all at once.
func load(ctx context.Context, sh *shell, named string) (*parts, error) {
	c, file, err := read(ctx, sh, named)
	if err != nil {
		return nil, err
	}
	p := &parts{config: c}
	p.readSinks(sh.out)
	p.readURLs(file)
	if err := file.Err(); err != nil {
		return nil, err
	}
	p.hide = file.Hide()
	return p, nil
}

// read reads the file that -c names, or what Debezium's files say.
func read(ctx context.Context, sh *shell, named string) (*config.Config, *config.File, error) {
	if names, ok := strings.CutPrefix(named, debeziumFiles); ok {
		yaml, err := importDebezium(ctx, sh, strings.Split(names, fileSeparator)[1:])
		if err != nil {
			return nil, nil, err
		}
		c, file, err := config.Read("imported tailbox.yaml", yaml, sh.env)
		if err != nil {
			return nil, nil, &usageError{err}
		}
		return c, file, nil
	}
	name, err := findConfig(sh, named)
	if err != nil {
		return nil, nil, err
	}
	c, file, err := config.Load(name, sh.env)
	if err != nil {
		return nil, nil, &usageError{err}
	}
	return c, file, nil
}

// readURLs tells what is wrong with the database's addresses. They may hold passwords, so they are not shown.
func (p *parts) readURLs(file *config.File) {
	valid := postgres.ValidURL
	switch p.config.Source.Kind {
	case "mongodb":
		valid = func(url string) error { return mongo.ValidURL(url, p.config.Source.Schema) }
	case mysql.KindMySQL, mysql.KindMariaDB:
		valid = mysql.ValidURL
	}
	for key, url := range map[string]string{"url": p.config.Source.URL, "lock_url": p.config.Source.LockURL} {
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

// newLogger makes the logger that the configuration asks for.
func newLogger(w io.Writer, c config.Log) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.Level}
	if c.JSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
