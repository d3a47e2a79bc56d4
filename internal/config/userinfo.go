package config

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

// ErrUserInfo is about a URL whose user name or password has to be percent-encoded. It repeats no part of the URL: any part may be of the password.
var ErrUserInfo = errors.New("has a character that cannot stand there as it is: percent-encode the user name and password, with %2F for /, %3F for ?, %23 for #, " +
	"%40 for @, %25 for %, %5B for [ and %20 for a space; behind the host, @ is written as %40 as well")

// scheme is what a URL begins with.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)

// UserInfo looks whether the user name and password of a URL end where they seem to. After a / ? or # in a password, a parser takes the text before it for the
// host, and the rest for a path, so that an @ behind the host is refused. Text that is no URL has none.
func UserInfo(text string) error {
	begin := scheme.FindString(text)
	if begin == "" {
		return nil
	}
	authority := text[len(begin):]
	if end := strings.IndexAny(authority, "/?#"); end >= 0 {
		if strings.Contains(authority[end:], "@") {
			return ErrUserInfo
		}
		authority = authority[:end]
	}
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return nil
	}
	_, err := url.PathUnescape(authority[:at])
	if err == nil && !strings.HasPrefix(begin, "mongodb") { // whose driver reads more
		_, err = url.Parse("any://" + authority[:at] + "@host")
	}
	if err != nil {
		return ErrUserInfo
	}
	return nil
}

// URL reads a URL as Secret does.
func (s *Section) URL(key string) string {
	text := s.secretBy(expand, maskURL, key)
	s.Conceal(text)
	s.UserInfo(key, text)
	return text
}

// URLs reads a list of URLs, whose texts are never shown.
func (s *Section) URLs(key string) []string {
	list := s.strings(s.value(key), s.at(key), true)
	s.Conceal(list...)
	masked := make([]string, len(list))
	for i, text := range list {
		s.UserInfo(key, text)
		masked[i] = maskURL(text)
	}
	s.keep(key, masked)
	return list
}

// UserInfo looks at the user name and password of a URL that was read from a key.
func (s *Section) UserInfo(key, text string) {
	if err := UserInfo(text); err != nil {
		s.file.Add(s.at(key), "", err.Error())
	}
}

// Hosts reads a list of host:port. Each text may name several, with commas between them, as an environment variable does.
func (s *Section) Hosts(key string) []string {
	var list []string
	for _, text := range s.strings(s.value(key), s.at(key), true) {
		for one := range strings.SplitSeq(text, ",") {
			if one = strings.TrimSpace(one); one != "" {
				list = append(list, one)
			}
		}
	}
	s.hostsOnly(key, list...)
	s.keep(key, list)
	return list
}

// Host reads one host:port.
func (s *Section) Host(key string) string {
	text, _ := s.scalar(s.value(key), s.at(key), true)
	s.hostsOnly(key, text)
	s.keep(key, text)
	return text
}

func (s *Section) hostsOnly(key string, list ...string) {
	for _, text := range list {
		if strings.Contains(text, "@") || strings.Contains(text, "://") {
			s.file.Add(s.at(key), "", "must be host:port, without a scheme, user name or password: user and password have keys of their own, and need not be percent-encoded there")
			return
		}
	}
}

// Problems returns a function that tells whether something was wrong with a key by now.
func (s *Section) Problems() func(steps ...string) bool {
	paths := map[string]bool{}
	for _, p := range s.file.problems {
		paths[p.Path] = true
	}
	return func(steps ...string) bool { return paths[pathText(s.at(steps...))] }
}
