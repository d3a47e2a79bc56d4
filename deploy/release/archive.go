package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// A file is part of an archive, a package or an image.
type file struct {
	name string
	text []byte
	mode int64
}

// archive writes the tar.gz of a target. All of it lies in one folder.
func (r *release) archive(t target, binary string) error {
	files, err := r.with(binary)
	if err != nil {
		return err
	}
	folder := fmt.Sprintf("tailbox_%s_%s_%s", r.version, t.os, t.arch)
	if t.os == "linux" {
		unit, err := r.unit("/usr/local/bin/tailbox")
		if err != nil {
			return err
		}
		files = append(files, file{"tailbox.service", unit, 0o644})
	}
	var all bytes.Buffer
	if err := writeTar(&all, folder, files, r.time); err != nil {
		return err
	}
	text, err := packed(all.Bytes())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, folder+".tar.gz"), text, 0o644)
}

// with returns the common files and the binary.
func (r *release) with(binary string) ([]file, error) {
	program, err := os.ReadFile(binary)
	return append(slices.Clone(r.common), file{"tailbox", program, 0o755}), err
}

// unit returns the unit of systemd for a program.
func (r *release) unit(program string) ([]byte, error) {
	const written = "/usr/local/bin/tailbox"
	text, err := os.ReadFile(filepath.Join(r.root, "deploy", "systemd", "tailbox.service"))
	if err == nil && !bytes.Contains(text, []byte(written)) {
		err = fmt.Errorf("the unit does not start %s", written)
	}
	return bytes.ReplaceAll(text, []byte(written), []byte(program)), err
}

// writeTar writes files below a folder, in the order of their names, as root's.
func writeTar(w io.Writer, folder string, files []file, at time.Time) error {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b file) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	t := tar.NewWriter(w)
	made := map[string]bool{".": true, "": true}
	var folders func(name string) error
	folders = func(name string) error {
		if made[name] {
			return nil
		}
		made[name] = true
		if err := folders(path.Dir(name)); err != nil {
			return err
		}
		return t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: at, Format: tar.FormatUSTAR})
	}
	for _, f := range files {
		name := path.Join(folder, f.name)
		if err := folders(path.Dir(name)); err != nil {
			return err
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: f.mode, Size: int64(len(f.text)), ModTime: at, Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		if _, err := t.Write(f.text); err != nil {
			return err
		}
	}
	return t.Close()
}
