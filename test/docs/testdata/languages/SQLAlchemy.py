{{code}}

from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError

engine = create_engine("postgresql+psycopg2://")
with Session(engine) as session:
    pay_order(session, 42)
with Session(engine) as session:
    try:
        pay_order(session, 43)
    except SQLAlchemyError:
        pass
    else:
        raise SystemExit("the message that is refused was no error")
