package config

import (
	"fmt"
	"regexp"
	"strings"
)

// variable is a reference to the environment: capitals, digits and underscores only, so that ${…} of other languages,
// such as ${routedByValue}, stays as it is.
var variable = regexp.MustCompile(`\$\{([A-Z0-9_]+)(:-[^}]*)?\}`)

// expand replaces references to the environment. As in a shell, the default after :- stands for unset and for empty.
func expand(s string, env func(string) (string, bool)) (string, []error) {
	if !strings.Contains(s, "${") {
		return s, nil
	}
	var errs []error
	out := variable.ReplaceAllStringFunc(s, func(ref string) string {
		parts := variable.FindStringSubmatch(ref)
		name, byDefault := parts[1], parts[2]
		value, set := env(name)
		switch {
		case byDefault != "" && value == "":
			return strings.TrimPrefix(byDefault, ":-")
		case byDefault == "" && !set:
			errs = append(errs, fmt.Errorf("the environment variable %s is not set: set it, or give a default as in ${%s:-…}", name, name))
		}
		return value
	})
	return out, errs
}
