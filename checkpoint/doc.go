// Package checkpoint holds what must survive a crash: the Tracker, which turns completions in any order into a safe
// position, and the contract of the Store that keeps checkpoints, parked deliveries and requests in the user's database.
//
// Stores are implemented by source/postgres, source/mysql and source/mongo, and pass the kit of source/sourcetest.
package checkpoint
