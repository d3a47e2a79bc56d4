package servers

import (
	"fmt"
	"strings"
	"testing"
)

// NATSCluster starts n servers that make one cluster, for this test alone, and stops them when the test ends. JetStream takes a moment to
// find its leader: ask until it answers. Server i calls itself n<i>.
func NATSCluster(tb testing.TB, n int) []*NATSServer {
	tb.Helper()
	ports := make([]int, n)
	var routes []string
	for i := range ports {
		var err error
		if ports[i], err = freePort(); err != nil {
			unavailable(tb, err)
		}
		routes = append(routes, fmt.Sprintf("nats-route://127.0.0.1:%d", ports[i]))
	}
	all := make([]*NATSServer, n)
	for i := range all {
		all[i] = NATS(tb, NATSOptions{Lines: []string{
			fmt.Sprintf("server_name: n%d", i),
			fmt.Sprintf("cluster { name: test, listen: \"127.0.0.1:%d\", routes: [%s] }", ports[i], strings.Join(routes, ", ")),
		}})
	}
	return all
}
