package binlog

import "testing"

// What needs an escape may stand first, last, alone and beside another one.
func TestJSONString(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``: `""`, `plain ä€😀`: `"plain ä€😀"`, `"`: `"\""`, `\`: `"\\"`, `"a"`: `"\"a\""`, `a\"b`: `"a\\\"b"`,
		"\b\f\n\r\t": `"\b\f\n\r\t"`, "\x00a\x1f": `"\u0000a\u001f"`, "a\nb": `"a\nb"`, "\x7f": "\"\x7f\"",
	} {
		document := append([]byte{jsonText, byte(len(text))}, text...)
		got, err := AppendJSON([]byte("before "), document)
		if err != nil || string(got) != "before "+want {
			t.Errorf("%q: got %s, %v, want %s", text, got, err, want)
		}
	}
}
