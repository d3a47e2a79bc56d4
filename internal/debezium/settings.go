package debezium

import "strings"

// A setting is one option as a file has it.
type setting struct {
	// key is as it stands in the file; the settings' own keys have no prefix debezium. raw is the value there, and value that with
	// its references resolved.
	key, raw, value string
	// file is environment for what is no file's; line is 0 if it is not known.
	file string
	line int
	used bool
	// dollars is how a $ is written there that is no reference, if that is not $$.
	dollars string
	// beside: it is a variable that stands beside a process, as in a compose file, and not in a .env file.
	beside bool
	// hidden: it is of a Secret, so that its value is not copied.
	hidden bool
	// origin is the variable of a file that it was taken from.
	origin *setting
	// overwritten is the variable that it comes from if Debezium's image does not take it from there.
	overwritten string
	// fault is why a reference in the value cannot be resolved, "" = all can; told: that has been told.
	fault string
	told  bool
	// made are the keys of tailbox.yaml that it decides, and idle is why it has no effect. They belong to the setting and not to its key, which a worker
	// and a connector may both have.
	made []string
	idle string
}

// decides notes that settings decide a key of tailbox.yaml.
func decides(key string, settings ...*setting) {
	for _, s := range settings {
		s.made = append(s.made, key)
	}
}

// keysOf names settings in a comment.
func keysOf(settings []*setting) string {
	keys := make([]string, len(settings))
	for i, s := range settings {
		keys[i] = s.key
	}
	return strings.Join(keys, ", ")
}

// is reports whether there is a setting with this value, whatever its case.
func (s *setting) is(value string) bool { return s != nil && strings.EqualFold(s.value, value) }

// secret reports whether the value must not be shown.
func (s *setting) secret() bool {
	key := strings.ReplaceAll(strings.ToLower(s.key), "_", ".") // a variable is secret as the option it stands for
	for _, word := range []string{"password", "secret", "token", "jaas", "passphrase", "connection.string", "keystore.key", "auth.seed", "auth.jwt", "user.info", "credential", "private"} {
		if strings.Contains(key, word) {
			return true
		}
	}
	return false
}

const (
	serverPrefix = "debezium."
	// environment stands for a file.
	environment = "environment"
)
