from .remote import (
    AsyncRemoteSession as AsyncRemoteSession,
    RemoteSession as RemoteSession,
    connect as connect,
    connect_async as connect_async,
)
