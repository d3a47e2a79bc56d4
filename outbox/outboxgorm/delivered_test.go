package outboxgorm_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/tailbox/tailbox/outbox"
)

const relayConfig = `
pipeline: ${PIPELINE}
source: {kind: "${KIND}", url: "${DATABASE_URL}", tables: [{shape: tailbox}]}
sinks: {out: {kind: file, path: lines.json}}
admin: {listen: off}
`

// TestDelivered: what is written arrives by the relay.
func TestDelivered(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "tailbox")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/tailbox")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build tailbox: %v\n%s", err, out)
	}
	each(t, func(r *rig) {
		dir := r.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "tailbox.yaml"), []byte(relayConfig), 0o600); err != nil {
			r.Fatal(err)
		}
		pipeline := "p" + strings.ReplaceAll(outbox.NewID(), "-", "")[:20]
		tailbox := func(verb string) *exec.Cmd {
			cmd := exec.Command(binary, verb)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "DATABASE_URL="+r.url, "KIND="+r.kind, "PIPELINE="+pipeline)
			return cmd
		}
		if out, err := tailbox("init").CombinedOutput(); err != nil {
			r.Fatalf("init: %v\n%s", err, out)
		}
		w := r.writer(outbox.Options{})
		id := ""
		if err := r.db.Transaction(func(tx *gorm.DB) (err error) {
			if err := tx.Create(&Order{State: "paid"}).Error; err != nil {
				return err
			}
			id, err = w.Write(tx, outbox.Draft{Type: "OrderPaid", Topic: "orders", Group: "order:1", Payload: []byte(`{"order": 1}`)})
			return err
		}); err != nil {
			r.Fatal(err)
		}
		relay := tailbox("run")
		var said bytes.Buffer
		relay.Stderr = &said
		if err := relay.Start(); err != nil {
			r.Fatal(err)
		}
		r.until(filepath.Join(dir, "lines.json"), `"id":"`+id+`","type":"OrderPaid","topic":"orders","group":"order:1"`)
		if err := relay.Process.Signal(syscall.SIGTERM); err != nil {
			r.Error(err)
		}
		if err := relay.Wait(); err != nil {
			r.Errorf("run: %v\n%s", err, said.String())
		}
	})
}

// until waits for a text in a file.
func (r *rig) until(file, want string) {
	r.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(2 * time.Minute)
	for {
		text, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(text), want) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			r.Fatalf("waited in vain for %s; there is %q, %v", want, text, err)
		}
	}
}
