package store

import (
	"github.com/tailbox/tailbox/source"
)

// An UnsupportedError is about a table that the relay cannot work with until an operator changes something. It matches source.ErrStop.
type UnsupportedError struct{ What, Fix string }

// Error says what is wrong, and what helps.
func (u *UnsupportedError) Error() string {
	return source.ErrStop.Error() + ": " + u.What + ": " + u.Fix
}

func (u *UnsupportedError) Unwrap() error { return source.ErrStop }
