package usertable

import (
	"github.com/tailbox/tailbox/source"
)

// An Unfit table is one that the relay cannot work with until an operator changes something. It matches source.ErrStop.
type Unfit struct{ What, Fix string }

// Error says what is wrong, and what helps.
func (u *Unfit) Error() string { return source.ErrStop.Error() + ": " + u.What + ": " + u.Fix }

func (u *Unfit) Unwrap() error { return source.ErrStop }
