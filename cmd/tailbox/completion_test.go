package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completed asks bash what it offers for the last of some words.
func completed(t *testing.T, script, dir string, words ...string) []string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	const ask = "\nCOMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); complete -p tailbox >/dev/null && _tailbox; printf '%s\\n' \"${COMPREPLY[@]}\"\n"
	cmd := exec.CommandContext(t.Context(), bash, append([]string{"--norc", "--noprofile", "-u", "-c", script + ask, "bash"}, words...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", words, err, out)
	}
	return strings.Fields(string(out))
}

// TestCompletion: bash offers each command and each flag where it can stand, and values where they are known.
func TestCompletion(t *testing.T) {
	t.Parallel()
	script := tailbox(t.Context(), "", "completion", "bash").out
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "shop.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		words string
		want  []string
	}{
		{"de", []string{"demo", "dead"}}, {"dead ", []string{"list", "summary", "show", "replay", "edit", "drop"}}, {"dead l", []string{"list"}},
		{"dead list --sin", []string{"--since", "--sink"}}, {"dead list --sink mail --li", []string{"--limit"}}, {"dead list --sink ", nil},
		{"sink list -o ", []string{"text", "json"}}, {"sink list -o j", []string{"json"}}, {"run -c s", []string{"shop.yaml"}}, {"config init --source m", []string{"mysql", "mariadb", "mongodb"}},
		{"import debezium s", []string{"shop.yaml"}}, {"dead drop --all", []string{"--all", "--all-sinks"}}, {"completion ", []string{"bash", "zsh", "fish"}},
	} {
		words := append([]string{"tailbox"}, strings.Split(c.words, " ")...)
		if got := completed(t, script, dir, words...); !slices.Equal(got, c.want) {
			t.Errorf("%q completes to %v, want %v", c.words, got, c.want)
		}
	}
	for _, line := range leaves(root(), nil) {
		for i, word := range line {
			before := append([]string{"tailbox"}, line[:i]...)
			if got := completed(t, script, dir, append(before, word)...); !slices.Contains(got, word) {
				t.Errorf("%v is not offered: %v", line[:i+1], got)
			}
		}
		if got := completed(t, script, dir, append(append([]string{"tailbox"}, line...), "-")...); !slices.Contains(got, "--help") {
			t.Errorf("%v has no flag: %v", line, got)
		}
	}
}

// TestCompletionOfShells: zsh and fish read what is made for them.
func TestCompletionOfShells(t *testing.T) {
	t.Parallel()
	for shell, lines := range map[string][]string{
		"zsh":  {"#compdef tailbox\n", `"/sink/list -o") compadd -- text json; return ;;`, "'list:lists dead deliveries"},
		"fish": {`complete -c tailbox -n '__tailbox_at "/dead"' -a list -d 'lists dead`, `complete -c tailbox -n '__tailbox_at "/sink/list"' -s o -x -a 'text json'`},
	} {
		script := tailbox(t.Context(), "", "completion", shell).out
		for _, line := range lines {
			if !strings.Contains(script, line) {
				t.Errorf("%s: no %q in\n%s", shell, line, script)
			}
		}
		bin, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		cmd := exec.CommandContext(t.Context(), bin, "-n")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", shell, err, out)
		}
	}
}

// TestManual: the manual page has every command, and groff finds nothing wrong with it.
func TestManual(t *testing.T) {
	t.Parallel()
	page := tailbox(t.Context(), "", "man").out
	for _, line := range leaves(root(), nil) {
		if !strings.Contains(page, ".SS tailbox "+strings.ReplaceAll(strings.Join(line, " "), "-", `\-`)) {
			t.Errorf("%v is not in the manual", line)
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed")
	}
	cmd := exec.CommandContext(t.Context(), groff, "-man", "-Tutf8", "-ww", "-rLL=500n")
	cmd.Stdin = strings.NewReader(page)
	var wrong strings.Builder
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	if err != nil || wrong.Len() > 0 || !strings.Contains(string(out), "tailbox.yaml") {
		t.Errorf("groff: %v\n%s\n%.2000s", err, wrong.String(), out)
	}
}

// TestVersionFlag: --version is what people try first.
func TestVersionFlag(t *testing.T) {
	t.Parallel()
	want := tailbox(t.Context(), "", "version")
	for _, flag := range []string{"--version", "-version"} {
		if got := tailbox(t.Context(), "", flag); got != want {
			t.Errorf("%s: %+v, want %+v", flag, got, want)
		}
	}
}
