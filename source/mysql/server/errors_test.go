package server

import (
	"errors"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tailbox/tailbox/source"
)

// After a switch-over, an address may lead to the old primary for a while: the relay says so, and tries again.
func TestFaultNamesAReadOnlyServer(t *testing.T) {
	t.Parallel()
	for _, message := range []string{
		"The MySQL server is running with the --super-read-only option so it cannot execute this statement",
		"The MySQL server is running with the --read-only (or --super-read-only) option so it cannot execute this statement",
		"The MariaDB server is running with the --read-only option so it cannot execute this statement",
	} {
		err := Fault("load state", &mysql.MyError{Code: 1290, State: "HY000", Message: message})
		if !errors.Is(err, ErrReadOnly) || errors.Is(err, source.ErrStop) {
			t.Errorf("%s: got %v, want %v, and no stop", message, err, ErrReadOnly)
		}
	}
	err := Fault("load state", &mysql.MyError{Code: 1290, State: "HY000", Message: "The MySQL server is running with the --secure-file-priv option so it cannot execute this statement"})
	if errors.Is(err, ErrReadOnly) {
		t.Errorf("an answer about another option is taken for a read-only server: %v", err)
	}
}
