"""Suppression bench: which features does an encoder keep when several compete?"""
