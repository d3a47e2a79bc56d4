package pgserver

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
	"github.com/xi2/xz"
)

// Bounds on what is read, far above what is expected, so that a wrong answer does not fill the disk.
const (
	maxArchive  = 200 << 20
	maxUnpacked = 1 << 30
)

// sums are the SHA-256 of the archives of release. The server that gives an archive is not asked for its sum.
func sums() map[string]string {
	return map[string]string{
		"linux-amd64":        "23da5a044b4fb7a5a081a45008c95749c873305328d73f86aefd56922ce1d29d",
		"linux-arm64v8":      "84427ea54a5238247924ef3b0f940e7d027e58760f19d7325242e50d22fa014a",
		"linux-amd64-alpine": "8584bc6a7818e96344d291733460a1fecb98f133dfd7beba95fc57e4b02f0462",
		"darwin-amd64":       "f1d6d39896ca48e65d6dbcb492d809df0d4952c65299de8af6e08d2208eae3e0",
		"darwin-arm64v8":     "e87ee36767dee4f00f829d7a52e4a216e2fdebe5934c5683730940aabe570721",
	}
}

// fetch downloads the programs for this machine, compares their checksum with the one that is known, and puts them into the
// cache in one step.
func fetch(ctx context.Context, cache string, progress func(string)) error {
	want, ok := sums()[platform()]
	if !ok {
		return fmt.Errorf("no checksum is known for Postgres %s on %s", release, platform())
	}
	return fetchSum(ctx, cache, want, progress)
}

func fetchSum(ctx context.Context, cache, want string, progress func(string)) (err error) {
	base, err := repository()
	if err != nil {
		return err
	}
	artifact := "embedded-postgres-binaries-" + platform()
	url := fmt.Sprintf("%s/io/zonky/test/postgres/%s/%s/%s-%s.jar", base, artifact, release, artifact, release)
	progress("downloading Postgres " + release + ", once, about 15 MB")
	archive, err := get(ctx, url)
	if err != nil {
		return err
	}
	if got := sha256.Sum256(archive); hex.EncodeToString(got[:]) != want {
		return fmt.Errorf("compare checksum of %s: got %x, want %s", url, got, want)
	}
	if err := makeCache(cache); err != nil {
		return err
	}
	work, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return fmt.Errorf("make download folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	tree := filepath.Join(work, "tree")
	if err := unpack(ctx, archive, tree); err != nil {
		return fmt.Errorf("unpack %s: %w", url, err)
	}
	final := filepath.Join(cache, "postgres-"+release)
	if err := os.Rename(tree, final); err != nil {
		// Another process may have been quicker, which is as good.
		if _, there := os.Stat(final); there == nil {
			return nil
		}
		return fmt.Errorf("put Postgres into the cache: %w", err)
	}
	return nil
}

// repository is where the programs are published as embedded-postgres-binaries: $TAILBOX_MAVEN_URL, or what the library of that
// name has by default. It has no method that tells it, so its field is read; the download itself is ours, for the library
// follows no context, has no bounds, and cannot work as root.
func repository() (string, error) {
	if mirror := os.Getenv("TAILBOX_MAVEN_URL"); mirror != "" {
		return strings.TrimSuffix(mirror, "/"), nil
	}
	field := reflect.ValueOf(embeddedpostgres.DefaultConfig()).FieldByName("binaryRepositoryURL")
	if field.Kind() != reflect.String || field.String() == "" {
		return "", errors.New("find the repository of embedded-postgres-binaries: set TAILBOX_MAVEN_URL to that of a Maven repository")
	}
	return strings.TrimSuffix(field.String(), "/"), nil
}

// makeCache makes the cache folder where it is missing, so that the unprivileged user can enter it whatever our umask is.
func makeCache(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755)); err != nil {
		return fmt.Errorf("make cache folder: %w", err)
	}
	return nil
}

// platform is this machine in the words of the repository.
func platform() string {
	arch := runtime.GOARCH
	if arch == "arm64" {
		arch = "arm64v8"
	}
	if _, err := os.Stat("/etc/alpine-release"); err == nil && runtime.GOOS == "linux" {
		arch += "-alpine"
	}
	return runtime.GOOS + "-" + arch
}

func get(ctx context.Context, url string) (body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", url, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err // it names the method and URL
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode == http.StatusNotFound {
		return nil, fmt.Errorf("get %s: there is none for this kind of machine", url)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: %s", url, resp.Status)
	}
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxArchive))
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", url, err)
	}
	return body, nil
}

// unpack finds the compressed tree in the archive and writes it to dir.
func unpack(ctx context.Context, archive []byte, dir string) error {
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return err
	}
	for _, f := range files.File {
		if strings.HasSuffix(f.Name, ".txz") {
			return unpackTree(ctx, f, dir)
		}
	}
	return errors.New("it holds no programs")
}

func unpackTree(ctx context.Context, f *zip.File, dir string) (err error) {
	compressed, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, compressed.Close()) }()
	plain, err := xz.NewReader(compressed, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755)); err != nil {
		return err
	}
	// Nothing can be written outside of the root, whatever the names in the archive are.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for entries := tar.NewReader(io.LimitReader(plain, maxUnpacked)); ; {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := unpackEntry(root, entry, entries); err != nil {
			return fmt.Errorf("%s: %w", entry.Name, err)
		}
	}
}

func unpackEntry(root *os.Root, entry *tar.Header, content io.Reader) error {
	name := filepath.Clean(strings.TrimPrefix(entry.Name, "/"))
	if name == "." {
		return nil
	}
	if parent := filepath.Dir(name); parent != "." {
		if err := errors.Join(root.MkdirAll(parent, 0o755), root.Chmod(parent, 0o755)); err != nil {
			return err
		}
	}
	switch entry.Typeflag {
	case tar.TypeDir:
		return errors.Join(root.MkdirAll(name, 0o755), root.Chmod(name, 0o755))
	case tar.TypeSymlink:
		return root.Symlink(entry.Linkname, name)
	case tar.TypeReg:
		mode := os.FileMode(0o644)
		if entry.Mode&0o111 != 0 {
			mode = 0o755
		}
		out, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, content)
		// Whatever our umask is, the unprivileged user has to read it.
		return errors.Join(err, out.Chmod(mode), out.Close())
	}
	return nil
}
