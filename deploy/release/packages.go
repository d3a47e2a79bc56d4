package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers deb
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers rpm
)

const description = `Log-tailing outbox relay
tailbox delivers the messages in a database's outbox table to Kafka, HTTP,
NATS, mail, Slack or files, in order within each message group.`

// pack writes a package for Linux. A package has its program in /usr/bin, where nothing of the administrator's lies.
func (r *release) pack(kind, arch, binary string) error {
	unit, err := r.unit("/usr/bin/tailbox")
	if err != nil {
		return err
	}
	all, err := r.with(binary)
	if err != nil {
		return err
	}
	all = append(all, file{"tailbox.service", unit, 0o644})
	places := map[string]string{
		"tailbox": "/usr/bin/tailbox", "tailbox.service": "/usr/lib/systemd/system/tailbox.service", "tailbox.1": "/usr/share/man/man1/tailbox.1.gz",
		"completions/tailbox.bash": "/usr/share/bash-completion/completions/tailbox", "completions/_tailbox": "/usr/share/zsh/site-functions/_tailbox",
		"completions/tailbox.fish": "/usr/share/fish/vendor_completions.d/tailbox.fish", "README.md": "/usr/share/doc/tailbox/README.md",
		"CHANGELOG.md": "/usr/share/doc/tailbox/CHANGELOG.md", "LICENSE": "/usr/share/doc/tailbox/copyright",
	}
	contents := files.Contents{{Destination: "/etc/tailbox", Type: files.TypeDir, FileInfo: &files.ContentFileInfo{Mode: 0o755, MTime: r.time}}}
	for _, f := range all {
		if f.name == "tailbox.1" {
			if f.text, err = packed(f.text); err != nil {
				return err
			}
		}
		source := filepath.Join(r.work, kind+arch+strings.ReplaceAll(f.name, "/", "-"))
		if err := os.WriteFile(source, f.text, 0o600); err != nil {
			return err
		}
		contents = append(contents, &files.Content{Source: source, Destination: places[f.name],
			FileInfo: &files.ContentFileInfo{Mode: os.FileMode(f.mode), MTime: r.time, Owner: "root", Group: "root"}})
	}
	info := nfpm.WithDefaults(&nfpm.Info{Name: "tailbox", Arch: arch, Platform: "linux", Version: r.version, Section: "net", Priority: "optional",
		Maintainer: "The tailbox authors <tailbox@example.org>", Description: description, License: "Apache-2.0", MTime: r.time,
		Overridables: nfpm.Overridables{Contents: contents, RPM: nfpm.RPM{BuildHost: "localhost"}}})
	packager, err := nfpm.Get(kind)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := packager.Package(info, &out); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, packager.ConventionalFileName(info)), out.Bytes(), 0o644)
}

// packed compresses with gzip. Nothing but the text goes into the result, so that it is the same each time.
func packed(text []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(text); err != nil {
		return nil, err
	}
	err = z.Close()
	return out.Bytes(), err
}
