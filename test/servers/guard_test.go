package servers_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// orphanVariable turns this test binary into a program that starts servers and
// waits to be killed.
const orphanVariable = "TAILBOX_TEST_ORPHANS"

// leaveOrphans starts servers, one of them paused, prints their directories and
// waits for the end.
func leaveOrphans() int {
	pg, err := servers.StartPostgres("17")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	paused, err := servers.StartPostgres("15")
	if err == nil {
		err = paused.Pause()
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	k, err := servers.StartKafka()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for _, dir := range []string{pg.SocketDir, paused.SocketDir, filepath.Dir(k.Certificates.CA)} {
		fmt.Println("directory", dir)
	}
	fmt.Println("ready")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n') // never comes
	fmt.Println(err)
	return 1
}

func TestKilledTestsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	servers.Shared(t, "17") // fails or skips here if there is no such server
	servers.SharedKafka(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), orphanVariable+"=1")
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil { // stays open: the program waits
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended unless the test failed midway
	dirs := readDirectories(t, output)
	processes := processesOf(t, dirs)
	if len(processes) < 3*2 { // a server and a guard each, and Postgres' own children
		t.Errorf("processes of %v: got %d, want more than 5", dirs, len(processes))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("killed program: got a good end")
	}
	ctx := within(t, 3*time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		left := remains(dirs, processes)
		if len(left) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("left behind a minute after the kill: %q", left)
		case <-tick.C:
		}
	}
}

// readDirectories reads what leaveOrphans prints.
func readDirectories(t *testing.T, output interface{ Read([]byte) (int, error) }) []string {
	t.Helper()
	var dirs []string
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if dir, ok := strings.CutPrefix(lines.Text(), "directory "); ok {
			dirs = append(dirs, dir)
		} else if lines.Text() == "ready" {
			return dirs
		} else {
			t.Fatalf("start servers in another process: %s", lines.Text())
		}
	}
	t.Fatal("start servers in another process: it ended")
	return nil
}

// processesOf lists the processes that name one of dirs in their command line,
// and their children; by id, with what they are.
func processesOf(t *testing.T, dirs []string) map[int]string {
	t.Helper()
	found := make(map[int]string)
	// Twice: the second time finds the children of those found first.
	for range 2 {
		stats, err := filepath.Glob("/proc/[0-9]*/stat")
		if err != nil {
			t.Fatal(err)
		}
		for _, stat := range stats {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(stat), "cmdline")) // it may have ended
			text := string(bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
			for _, dir := range dirs {
				if strings.Contains(text, dir) {
					found[pid] = text
				}
			}
			content, _ := os.ReadFile(stat)
			fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
			if len(fields) > 1 {
				if parent, _ := strconv.Atoi(fields[1]); found[parent] != "" {
					found[pid] = text
				}
			}
		}
	}
	return found
}

// remains lists what of the servers is still there; zombies are not.
func remains(dirs []string, processes map[int]string) []string {
	var left []string
	for _, dir := range dirs {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			left = append(left, dir)
		}
	}
	for pid, what := range processes {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil && !bytes.Contains(stat, []byte(") Z ")) {
			left = append(left, fmt.Sprintf("%d %s", pid, what))
		}
	}
	return left
}
