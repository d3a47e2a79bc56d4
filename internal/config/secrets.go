package config

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
)

const (
	// leastSecret is the size of a text that Hide replaces. A shorter one stands in too many words.
	leastSecret = 4
	// leastStep is the size of a part of a URL's path that may be a token, as in the address of a webhook.
	leastStep = 16
	hidden    = "***"
)

// Conceal makes texts secrets of the file, so that Hide replaces them. What Secret reads is one already.
func (s *Section) Conceal(texts ...string) { s.file.secrets = append(s.file.secrets, texts...) }

// Hide returns a function that replaces the secrets which were read from the file by now, for texts that come from elsewhere and may repeat
// them. Several goroutines may call it.
func (f *File) Hide() func(text string) string {
	var all []string
	for _, secret := range f.secrets {
		all = append(all, shown(secret)...)
	}
	// Of two that begin alike the longer one goes first.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, text := range all {
		if len(text) >= leastSecret {
			pairs = append(pairs, text, hidden)
		}
	}
	return strings.NewReplacer(pairs...).Replace
}

// shown lists the forms in which a secret may come back. Of a URL these are its password and what may be a token: people may see the rest.
func shown(secret string) []string {
	u, err := url.Parse(secret)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return []string{secret, url.QueryEscape(secret)}
	}
	var forms []string
	if password, ok := u.User.Password(); ok {
		both := u.User.Username() + ":" + password
		forms = append(forms, password, url.QueryEscape(password), base64.StdEncoding.EncodeToString([]byte(both)))
	} else if u.User != nil {
		forms = append(forms, u.User.Username())
	}
	for step := range strings.SplitSeq(u.EscapedPath(), "/") {
		if len(step) >= leastStep {
			forms = append(forms, step)
		}
	}
	for _, values := range u.Query() {
		forms = append(forms, values...)
	}
	return forms
}
