package demo

import "testing"

func TestWithoutPassword(t *testing.T) {
	t.Parallel()
	for conn, want := range map[string]string{
		"postgres://u:p%40@h/db?x=1":                     "postgres://u:***@h/db?x=1",
		"mongodb://u:p@a:1,b:2/?replicaSet=r":            "mongodb://u:***@a:1,b:2/?replicaSet=r",
		"mysql://root@h:3306/":                           "mysql://root@h:3306/",
		"host=h password='a b' dbname=d":                 "host=h password=*** dbname=d",
		"postgres://h/d?user=u&password=secret&sslmode=": "postgres://h/d?user=u&password=***&sslmode=",
	} {
		if got := withoutPassword(conn); got != want {
			t.Errorf("%s: got %s", conn, got)
		}
	}
}
