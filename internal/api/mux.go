package api

import (
	"net/http"
	"strings"
)

// verbMux is a ServeMux for paths that end in a verb, such as /sinks/{name}:pause: a wildcard of ServeMux takes a whole step of the path.
type verbMux struct {
	*http.ServeMux
	// verbs are the handlers by the pattern without the verb.
	verbs map[string]map[string]http.HandlerFunc
}

func newVerbMux() *verbMux {
	m := &verbMux{http.NewServeMux(), make(map[string]map[string]http.HandlerFunc)}
	m.ServeMux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		problem(w, http.StatusNotFound, "there is no operation "+r.Method+" "+r.URL.Path+": see "+Prefix+"/openapi.json")
	})
	return m
}

// HandleFunc adds a handler, as that of ServeMux.
func (m *verbMux) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	base, verb, found := strings.Cut(pattern, "}:")
	if !found {
		m.ServeMux.HandleFunc(pattern, handler)
		return
	}
	base += "}"
	if m.verbs[base] == nil {
		verbs := make(map[string]http.HandlerFunc)
		m.verbs[base] = verbs
		name := base[strings.LastIndexByte(base, '{')+1 : len(base)-1]
		m.ServeMux.HandleFunc(base, func(w http.ResponseWriter, r *http.Request) {
			value := r.PathValue(name)
			i := strings.LastIndexByte(value, ':')
			if i < 0 || verbs[value[i+1:]] == nil {
				problem(w, http.StatusNotFound, "there is no operation "+r.Method+" "+r.URL.Path+": see "+Prefix+"/openapi.json")
				return
			}
			r.SetPathValue(name, value[:i])
			verbs[value[i+1:]](w, r)
		})
	}
	m.verbs[base][verb] = handler
}
