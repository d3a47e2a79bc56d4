package config_test

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/internal/config"
)

// TestPlaceholderTokens: the token of an example is no secret.
func TestPlaceholderTokens(t *testing.T) {
	t.Parallel()
	for token, refused := range map[string]bool{"change-me": true, "CHANGEME": true, "<replace_this>": true, "change-me-not": false, "a7d1": false} {
		_, file, err := config.Read("f", []byte("source: {kind: postgres, url: x}\nsinks: {a: {kind: discard}}\nadmin: {token: '"+token+"'}\n"), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		if err := file.Err(); err != nil {
			text = err.Error()
		}
		if strings.Contains(text, "admin.token: is a placeholder") != refused || strings.Contains(text, token) {
			t.Errorf("%s: %s", token, text)
		}
	}
}
