package console

import "testing"

// TestLocalPath: a login leads to pages of the console alone, whatever a link asked for.
func TestLocalPath(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"/": "/", "": "/", "deliveries": "/", "?x=1": "/", "/deliveries?state=dead&sink=a%2Fb": "/deliveries?state=dead&sink=a%2Fb", "/messages/a%2Fb%5Cc?sink=api": "/messages/a%2Fb%5Cc?sink=api",
		"//evil.example/": "/", "///evil.example/": "/", "https://evil.example/": "/", "javascript:alert(1)": "/", "/a\r\nb": "/",
		`/\evil.example/`: "/", `/./\evil.example/`: "/", `/../\evil.example`: "/", `/a/../\evil.example/`: "/", `/\/evil.example`: "/%5C/evil.example",
	} {
		if got := localPath(to); got != want {
			t.Errorf("%q leads to %q, want %q", to, got, want)
		}
	}
}
